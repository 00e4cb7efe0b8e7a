// Images of the ten digits with their labels: MNIST and what has its form, from files; or drawn, where there are none.
#pragma once

#include <cstdint>
#include <string>

#include "caravan/array/array.h"
#include "caravan/data/places.h"

namespace caravan::data {

// Images and what each shows.
struct LabelledImages {
  Array images;  // u8, n|28,28,1, 0 is paper and 255 is ink
  Array labels;  // u8, n|, from 0 to 9
};

inline constexpr const char* kDrawn = "drawn digits";  // the source of digits that were drawn, not loaded

// A data set of digits and where it is from.
struct Digits {
  LabelledImages train, test;  // what to learn from, and what to judge by
  std::string source;          // the folder, or kDrawn
  bool drawn = false;          // no files were found, so the digits are drawn by a program
  bool chosen = false;         // the folder was given: whatever digits it has are meant
};

// The four IDX files of a folder, packed or not, with `-idx` or `.idx` in their names. ConfigError where one is
// missing, where images and labels differ in number, an image is not of 28×28 or a label not from 0 to 9.
Digits load_digits(const std::string& folder, Source where = Source::here());

// A stand-in for MNIST: strokes of a pen with a hand's variation, centred as MNIST's are. Image i of a seed is the same
// however many are drawn.
Digits drawn_digits(int64_t train, int64_t test, uint64_t seed, Source where = Source::here());

// MNIST where it is found (in a folder that was given: whatever digits are there), else drawn digits. ConfigError where
// a folder was given and has none.
Digits find_digits(const Places& places, uint64_t seed, Source where = Source::here());

}  // namespace caravan::data
