// Counter-based random bits: Threefry-4x32 with 20 rounds, exactly Random123's.
//
// J. Salmon, M. Moraes, R. Dror, D. Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
// A stream is keyed by (seed, name, step); the element of the tensor is the counter. So a value
// depends on nothing but these four, whatever the backend, the threads or the other tensors.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace caravan {

using Word4 = std::array<uint32_t, 4>;

Word4 threefry4x32(Word4 counter, Word4 key);

uint64_t hash_name(std::string_view name);  // of base/hash.h

// Four random words of element `element`: counter = (element, step), key = (seed, hash of the name).
Word4 random_words(uint64_t seed, uint64_t name_hash, uint64_t step, uint64_t element);

// The two distributions from which all others are made. As f32 they are exact up to one final rounding.
double unit_uniform(uint32_t word);                  // in [0, 1), a multiple of 2^-24
double unit_normal(uint32_t word0, uint32_t word1);  // Box-Muller; |result| <= 5.77

// unit_normal(w[0], w[1]) for the words w of the elements first, first + 1, ... of a stream: the same bits, several
// times faster.
void unit_normals(uint64_t seed, uint64_t name_hash, uint64_t step, uint64_t first, std::span<double> out);

// How the elements of a tensor are drawn, all at step 0: element e is ((begin + width * n) * first) * second, where n
// is unit_normal or unit_uniform of its words.
struct Drawing {
  bool normal = false;
  double begin = 0, width = 1, first = 1, second = 1;
  uint64_t seed = 0, name_hash = 0;

  double value(double n) const { return (begin + width * n) * first * second; }
};
// The elements `from`, `from` + 1, ... of it.
void draw(const Drawing& drawing, uint64_t from, std::span<double> out);

}  // namespace caravan
