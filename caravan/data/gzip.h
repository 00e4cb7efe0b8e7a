// gzip and deflate: what compressed bytes say, or a refusal. Nothing of them is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "caravan/data/byte_source.h"

namespace caravan::data {

bool is_gzip(std::string_view content);  // by its first two bytes, whatever the file is called

// The unpacked content, at most `most` bytes. ConfigError where it is damaged, truncated or larger, or where something
// follows that is no gzip; `file` names it in the message, and `limit` says what `most` is.
std::string gunzip(std::string_view content, const std::string& file, size_t most,
                   const std::string& limit = "the most that is read");
// Its first `most` bytes, or all where there are fewer. What comes after them is not unpacked, so a bomb costs nothing.
std::string gunzip_start(std::string_view content, const std::string& file, size_t most);
std::string gzip(std::string_view content);  // equal content gives equal bytes

// The bytes of a gzip file, unpacked as they are read. Damage and what follows the end are refused when they are met,
// so the end must be read too.
std::unique_ptr<ByteSource> gunzipping(std::string_view content, const std::string& file);

// A whole file, unpacked if it is gzip.
std::string read_unpacked(const std::string& path, const ReadLimits& limits = {});

inline constexpr uint64_t kBestDeflation = 1032;  // one byte becomes no more than these

// Deflate without a frame, as a zip file holds it: exactly `size` bytes with this checksum. ConfigError with `problem`
// where it is something else, at the latest when the end is read.
std::unique_ptr<ByteSource> inflating(std::string_view content, uint64_t size, uint32_t crc,
                                      const std::string& problem);
std::string deflated(std::string_view content);
uint32_t crc32(std::string_view content);

}  // namespace caravan::data
