// FNV-1a, the one hash: of bytes, whose values are fixed for ever (random streams and files on disk depend on them),
// and of words, for tables in memory. Not for secrets: whoever wants two texts of one hash finds them.
#pragma once

#include <cstdint>
#include <string_view>

namespace caravan {

inline constexpr uint64_t kHashStart = 0xcbf29ce484222325;
constexpr uint64_t hash_step(uint64_t hash, uint64_t next) { return (hash ^ next) * 0x100000001b3; }

constexpr uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = kHashStart;
  for (char c : bytes) hash = hash_step(hash, uint8_t(c));
  return hash;
}

// Of whole words. A multiplication carries bits only upwards, so each step brings the high bits down again.
class WordHash {
 public:
  constexpr void add(uint64_t word) {
    value_ = hash_step(value_, word);
    value_ ^= value_ >> 29;
  }
  constexpr uint64_t value() const { return value_; }

 private:
  uint64_t value_ = kHashStart;
};

}  // namespace caravan
