// Every case of the gradient checks as a program that computes its value and its gradients.
#pragma once

#include <string>
#include <vector>

#include "programs.h"

namespace caravan {

struct GradientProgram {
  std::string name;  // "window: stride 2"
  // Observed are the value, and the gradients of dot(value, weights) and, if the case has a second order, those of
  // dot(these, directions).
  Program program;
  IndexValues indices;
};
// In f64, as the cases are. Each case is there once, with the highest order that it has.
std::vector<GradientProgram> gradient_programs();

}  // namespace caravan
