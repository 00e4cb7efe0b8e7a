// Zip files of stored and deflated entries, as NumPy makes them; without encryption and below 4 GiB.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caravan::data {

struct ZipEntry {
  std::string name, content;
};

// ConfigError, one sentence, for everything that is wrong: damage (every CRC is checked), names that appear twice,
// entries that overlap, what unpacks to more than gzip.h's limit.
std::vector<ZipEntry> parse_zip(std::string_view content, const std::string& file);

std::string zip_content(const std::vector<ZipEntry>& entries, bool deflate);  // equal entries give equal bytes

}  // namespace caravan::data
