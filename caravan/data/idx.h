// IDX files, the format of MNIST: a number of axes, their sizes, and the elements, all big endian. gzip is seen by its
// first bytes, whatever the file is called.
#pragma once

#include <string>
#include <string_view>

#include "caravan/array/array.h"
#include "caravan/data/byte_source.h"

namespace caravan::data {

// The first axis is a batch axis, the others are output axes. u8, i32, f32 and f64 stay what they are; i8 and i16
// become i32. No more is unpacked than the header promises, straight into the array, and nothing where that is above
// the limit. ConfigError, one sentence, for everything that is wrong with a file; `file` names it in the message.
Array read_idx(const std::string& path, const ReadLimits& limits = {}, Source where = Source::here());
// The same from bytes in memory.
Array parse_idx(std::string_view content, const std::string& file, const ReadLimits& limits = {},
                Source where = Source::here());

// The axes in memory order. ConfigError for a scalar and for precisions that the format does not have.
void write_idx(const std::string& path, const Array& array, Source where = Source::here());
std::string idx_content(const Array& array, Source where = Source::here());  // the bytes that write_idx writes

}  // namespace caravan::data
