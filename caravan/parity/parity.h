// Parity with PyTorch: the same model, the same numbers, the same steps; how far apart are the results?
#pragma once

#include <optional>
#include <vector>

#include "caravan/parity/fixture.h"
#include "caravan/runtime/context.h"

namespace caravan::parity {

// Trains the fixture's model from its parameters and returns what its `results` should be, under the same names.
Arrays train(const Fixture& fixture, const ContextOptions& options);

struct Difference {
  std::string name;
  double absolute;  // max |a - b|
  double relative;  // max |a - b| / max |b|, absolute where max |b| is below 1e-6; NaN where either has one
  double limit;     // of `relative`
  bool passed() const { return relative <= limit; }
};
Difference difference(const std::string& name, const Array& ours, const Array& theirs);

struct Report {
  std::vector<Difference> differences;    // losses, gradients, parameters, buffers, evaluation
  std::optional<int64_t> losses_part_at;  // the first step, from 0, whose loss is further apart than the limit allows
  bool passed() const;
  double worst() const;  // the largest relative difference, as a share of its limit
};
// ConfigError where one has a result that the other lacks, or of another shape.
Report compare(const Arrays& ours, const Arrays& theirs);

}  // namespace caravan::parity
