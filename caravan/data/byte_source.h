// Bytes in order, of a text or as they are unpacked: nothing is unpacked that nobody asks for, and an array is filled
// without a copy of all its bytes beside it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace caravan::data {

// How much a reader unpacks. A megabyte of a packed file may unpack to a gigabyte, so a file that nobody vouches for
// could fill the memory; a caller who expects more says so.
struct ReadLimits {
  uint64_t unpacked = uint64_t(1) << 30;  // bytes, of all that one file packs
};

// What a reader of a file takes its bytes from.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // The next n bytes; fewer only at the end. ConfigError where what is packed is damaged.
  virtual size_t read(void* to, size_t n) = 0;
  // No more than this can come.
  virtual uint64_t most() const = 0;
};

// Bytes that are in memory already.
class TextSource : public ByteSource {
 public:
  explicit TextSource(std::string_view text) : rest_(text) {}
  // Copies them from the text.
  size_t read(void* to, size_t n) override {
    const size_t taken = std::min(n, rest_.size());
    if (taken > 0) std::memcpy(to, rest_.data(), taken);
    rest_.remove_prefix(taken);
    return taken;
  }
  uint64_t most() const override { return rest_.size(); }  // how many are left

 private:
  std::string_view rest_;
};

// Throws away what is left and counts it, up to `enough`.
inline uint64_t count_rest(ByteSource& source, uint64_t enough) {
  char piece[4096];
  uint64_t out = 0;
  for (size_t n; out < enough && (n = source.read(piece, sizeof piece)) > 0;) out += n;
  return std::min(out, enough);
}

}  // namespace caravan::data
