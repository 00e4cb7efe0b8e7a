// How a classifier does on examples it has not seen.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/recipes/recipe.h"
#include "caravan/plot/confusion.h"

namespace caravan::app {

using Model = std::function<Tensor(const Tensor& x)>;  // examples `n | ...` to what each class gets

struct Predictions {
  Array inputs, labels;                           // n | ..., n
  std::vector<std::vector<float>> probabilities;  // of each example, one for each class
  int64_t truth(size_t i) const { return int64_t(labels.at(int64_t(i))); }
  int64_t said(size_t i) const;       // the most probable class
  double confidence(size_t i) const;  // its probability
  double accuracy() const;
  std::vector<size_t> wrong() const;  // the most confident first
};
// Runs on the Context's device, a hundred examples at a time. `model` gives probabilities.
Predictions predict(Context& ctx, const Model& model, const Array& inputs, const Array& labels);

// Classes without names are numbers.
plot::Confusion confusion(const Predictions& predictions, const std::string& title,
                          std::vector<std::string> classes = {});
std::string examples_text(const Predictions& predictions, size_t count);  // the truth beside what is said, how surely

}  // namespace caravan::app
