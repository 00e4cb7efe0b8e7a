// Data that is made, not loaded. Everything is a function of the options, the seed among them.
#pragma once

#include <cstdint>
#include <string>

#include "caravan/array/array.h"

namespace caravan::data {

// Points and the class, or the value, of each.
struct LabelledPoints {
  Array points;  // n|2
  Array labels;  // n|1
};

// Options of half_moons.
struct HalfMoonsOptions {
  int64_t points = 800;  // how many points are made
  double noise = 0.1;    // uniform in [-noise, noise] on each coordinate
  uint64_t seed = 0;     // another seed, other random values
};
// The upper moon (cos v, sin v) has label +1, the lower (1 - cos v, 0.5 - sin v) label -1; v in [0, pi). Shuffled by
// the seed.
LabelledPoints half_moons(const HalfMoonsOptions& options = {}, Source where = Source::here());

// Options of circles.
struct CirclesOptions {
  int64_t points = 800;  // how many points are made
  double inner = 0.5;    // radius of the ring with label +1; the other, label -1, has radius 1
  double noise = 0.1;    // as above
  uint64_t seed = 0;     // another seed, other random values
};
// Two rings around the origin, evenly filled and shuffled.
LabelledPoints circles(const CirclesOptions& options = {}, Source where = Source::here());

// Options of spirals.
struct SpiralsOptions {
  int64_t points = 800;  // how many points are made
  double turns = 1.5;    // of each arm, from the radius 0.1 to 1
  double noise = 0.02;   // as above
  uint64_t seed = 0;     // another seed, other random values
};
// Two arms, one the other turned by half a circle; labels +1 and -1, shuffled.
LabelledPoints spirals(const SpiralsOptions& options = {}, Source where = Source::here());

// Options of disc.
struct DiscOptions {
  int64_t points = 800;                // how many points are made
  double radius = 1.4, half_side = 2;  // of the disc, and of the square that the points fill
  uint64_t seed = 0;                   // another seed, other random values
  std::string stream = "disc.points";  // another name gives other points: to train, to test
};
// Points uniform in [-half_side, half_side)², label +1 in the disc around the origin, -1 outside.
LabelledPoints disc(const DiscOptions& options = {}, Source where = Source::here());

// Options of products.
struct ProductsOptions {
  int64_t points = 1000;                  // how many pairs are made
  double largest = 3;                     // the end of the interval of both factors
  uint64_t seed = 0;                      // another seed, other random values
  std::string stream = "multiply.pairs";  // as above
};
// Pairs x, y uniform in [0, largest)² and, as their labels, x * y in single precision.
LabelledPoints products(const ProductsOptions& options = {}, Source where = Source::here());

}  // namespace caravan::data
