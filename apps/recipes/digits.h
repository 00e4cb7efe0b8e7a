// What the recipes of handwritten digits share: the images as batches, and what is said and drawn of a classifier.
#pragma once

#include "apps/recipes/classify.h"
#include "caravan/data/digits.h"

namespace caravan::app {

inline const char* const kDigitShape = "28,28,1";  // of an image

Tensor pixels(const Tensor& images);  // bytes to 0..1
Tensor flattened(const Tensor& x);    // `... | 28,28,1` to `... | 784`

// The images that are found, and the batch of a step: a fixed partition, shuffled once by the seed unless they are to
// be taken as they come.
struct DigitBatches {
  data::Digits digits;
  Schedule schedule;
  Index batch, step;
  Tensor x, labels;  // `n | 28,28,1` in 0..1, `n`
};
DigitBatches digit_batches(const Request& request, Defaults defaults, bool shuffled = true);

// Fills in data and evaluation of a recipe whose model gives `probabilities`; `more` adds its own findings.
using MoreFindings = std::function<void(Findings&, const Predictions&, Context&)>;
void add_digit_findings(Recipe& recipe, const data::Digits& digits, const Model& probabilities,
                        const MoreFindings& more = nullptr);

}  // namespace caravan::app
