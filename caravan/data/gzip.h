// gzip and deflate: what compressed bytes say, or a refusal. Nothing of them is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace caravan::data {

bool is_gzip(std::string_view content);  // by its first two bytes, whatever the file is called

// The unpacked content, at most `most` bytes. ConfigError where it is damaged, truncated or larger, or where something
// follows that is no gzip; `file` names it in the message, and `limit` says what `most` is.
std::string gunzip(std::string_view content, const std::string& file, size_t most,
                   const std::string& limit = "the most that is read");
// Its first `most` bytes, or all where there are fewer. What comes after them is not unpacked, so a bomb costs nothing.
std::string gunzip_start(std::string_view content, const std::string& file, size_t most);
std::string gzip(std::string_view content);  // equal content gives equal bytes

inline constexpr size_t kLargestUnpacked = size_t(1) << 32;  // no data set of ours is near it; a bomb may be
std::string read_unpacked(const std::string& path);          // a whole file, unpacked if it is gzip

// Deflate without a frame, as a zip file holds it. None where the bytes are not exactly one stream of `size` bytes.
std::optional<std::string> inflated(std::string_view content, size_t size);
std::string deflated(std::string_view content);
uint32_t crc32(std::string_view content);

}  // namespace caravan::data
