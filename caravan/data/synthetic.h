// Data that is made, not loaded.
#pragma once

#include <cstdint>

#include "caravan/array/array.h"

namespace caravan::data {

struct LabelledPoints {
  Array points;  // n|2
  Array labels;  // n|1
};

struct HalfMoonsOptions {
  int64_t points = 800;
  double noise = 0.1;  // uniform in [-noise, noise] on each coordinate
  uint64_t seed = 0;
};
// The upper moon (cos v, sin v) has label +1, the lower (1 - cos v, 0.5 - sin v) label -1; v in [0, pi). Shuffled by
// the seed.
LabelledPoints half_moons(const HalfMoonsOptions& options = {});

struct Products { Array factors, products; };
struct ProductsOptions { int64_t points = 0; uint64_t seed = 0; const char* stream = ""; };
Products products(const ProductsOptions& o);
struct DiscOptions { int64_t points = 0; double radius = 1.4, half_width = 2; uint64_t seed = 0; const char* stream = ""; };
LabelledPoints disc(const DiscOptions& o);

}  // namespace caravan::data
