// All hash functions: FNV-1a, and variants of it for words and with 128 bits. Those of bytes must never change, because
// random streams and files on disk depend on them; the hash of words is for tables in memory. None is cryptographic:
// collisions are easy to construct.
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

// 128 bits: the hash above, and one with another start value and factor, so that texts which collide in one half differ
// in the other.
struct Hash128 {
  uint64_t first, second;
};
constexpr Hash128 hash_bytes_128(std::string_view bytes) {
  uint64_t second = 0x84222325cbf29ce4;
  for (char c : bytes) {
    second = (second ^ uint8_t(c)) * 0x9e3779b97f4a7c15;
    second ^= second >> 29;
  }
  return {hash_bytes(bytes), second};
}

// Hash of 64-bit words. A multiplication moves bits only upwards, so each step also mixes the high bits into the low
// ones.
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
