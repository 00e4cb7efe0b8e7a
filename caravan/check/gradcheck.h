// Gradient checks of the whole language: every op by every operand, and every family of specs, at first and second
// order.
//
// A case builds a tensor y. At first order its check compares the gradient of dot(y, weights) with five-point
// differences; at second order that of dot(gradient, directions). Weights and directions are random and fixed, so that
// no error can cancel.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "caravan/runtime/context.h"

namespace caravan {

struct GradientCase {
  struct Built {
    Built(Tensor result, IndexValues indices = {}) : result(std::move(result)), indices(std::move(indices)) {}
    Tensor result;        // its parameters are what is checked
    IndexValues indices;  // to run it with
  };
  std::string family;  // "op pow", "window"
  std::string name;    // "a", "stride 2"
  int order = 1;       // 1 or 2
  std::function<Built()> build;
};
std::string to_string(const GradientCase& c);  // "window: stride 2, order 2"

// Those of the op table (op_cases.cpp), of specs (spec_cases.cpp), of layers and losses (block_cases.cpp). Neighbours
// in the list are of one family.
std::vector<GradientCase> gradient_cases();
std::vector<GradientCase> op_gradient_cases();
std::vector<GradientCase> spec_gradient_cases();
std::vector<GradientCase> block_gradient_cases();

inline constexpr double kGradientTolerance = 1e-6;  // of |numeric - analytic| / max(1, |numeric|, |analytic|)

struct CaseResult {
  std::string family, name;
  int order = 1;
  int64_t checked = 0;  // elements compared
  double worst = 0;     // error
  bool passed = false;
  std::string refusal;  // the message, where building or running it threw
};
CaseResult run(const GradientCase& c);

}  // namespace caravan
