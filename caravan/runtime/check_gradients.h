// Gradients beside their numeric values.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "caravan/runtime/context.h"

namespace caravan {

// Gradients compared with differences.
struct GradientCheck {
  // One element of one parameter.
  struct Element {
    std::string parameter;                        // its name
    int64_t index = 0;                            // of the element, in memory order
    double numeric = 0, analytic = 0, error = 0;  // error: |numeric - analytic| / max(1, |numeric|, |analytic|)
  };
  std::vector<Element> elements;                                             // all that were compared
  double worst = 0;                                                          // the largest error among them
  bool passed(double tolerance = 1e-6) const { return worst <= tolerance; }  // whether no error is above the tolerance
};
std::ostream& operator<<(std::ostream& out, const GradientCheck& check);  // prints both side by side

// How finely and how much is compared.
struct CheckOptions {
  double step = 1e-3;              // the distance of the five points of a difference; its error is O(step^4)
  int64_t max_per_parameter = 64;  // the largest number of elements that are compared, evenly spread
  IndexValues indices{};           // at which the loss is computed
};
// Compares grad(loss, parameters) with differences of loss. Parameters are put back as they were.
GradientCheck check_gradients(const Tensor& loss, const std::vector<Tensor>& parameters, Context& ctx,
                              const CheckOptions& options = {});

}  // namespace caravan
