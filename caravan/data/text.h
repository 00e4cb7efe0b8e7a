// Lines of text. UTF-8 stays the bytes it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "caravan/base/source.h"
#include "caravan/data/byte_source.h"

namespace caravan::data {

// Ended by LF or CRLF; the last line may lack its end. A text that ends with a line end has no empty line after it.
std::vector<std::string> lines(std::string_view text);
std::vector<std::string> read_lines(const std::string& path, const ReadLimits& limits = {},
                                    Source where = Source::here());  // packed or not

}  // namespace caravan::data
