// Zip files of stored and deflated entries, as NumPy makes them; without encryption and below 4 GiB.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "caravan/data/byte_source.h"

namespace caravan::data {

struct ZipEntry {
  std::string name, content;
};

// An entry as the file holds it; `packed` is a part of the file's content.
struct ZipItem {
  std::string name;
  std::string_view packed;
  bool deflated = false;
  uint64_t size = 0;  // unpacked
  uint32_t crc = 0;
  std::string damaged;  // what to say where its bytes are not what the directory promises
};

// What a zip file holds, without unpacking it. ConfigError, one sentence, for everything that is wrong: damage, names
// that appear twice, entries that overlap, and entries that together would unpack to more than the limit.
std::vector<ZipItem> zip_items(std::string_view content, const std::string& file, const ReadLimits& limits = {});
// Its bytes. ConfigError where they are damaged (the checksum is compared), at the latest when the end is read.
std::unique_ptr<ByteSource> open(const ZipItem& item);

std::vector<ZipEntry> parse_zip(std::string_view content, const std::string& file, const ReadLimits& limits = {});
std::string zip_content(const std::vector<ZipEntry>& entries, bool deflate);  // equal entries give equal bytes

}  // namespace caravan::data
