// How a classifier does on examples it has not seen.
#pragma once

#include <functional>
#include <optional>
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
// A model with examples to be tried on: a hundred at a time on the Context's device, compiled at the first try.
class Predictor {
 public:
  Predictor(const Context& ctx, Model probabilities, const Array& inputs, const Array& labels);
  Predictions predict();  // with the states that the Context has now

 private:
  Context ctx_;
  Model probabilities_;
  Array inputs_, labels_;
  Index batch_;
  Tensor answer_{};
  std::optional<Routine> routine_;
};

// Classes without names are numbers.
plot::Confusion confusion(const Predictions& predictions, const std::string& title,
                          std::vector<std::string> classes = {});
// With what is right in one colour and what is wrong in another.
std::string confusion_text(const plot::Confusion& confusion, const Screen& screen);
std::string examples_text(const Predictions& predictions, const Screen& screen);  // the truth, what is said, how surely

}  // namespace caravan::app
