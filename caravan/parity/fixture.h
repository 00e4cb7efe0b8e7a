// A fixture: a short training run of PyTorch in one safetensors file, with all that is needed to repeat it.
#pragma once

#include <map>
#include <string>

#include "caravan/array/array.h"
#include "caravan/data/safetensors.h"
#include "caravan/parity/description.h"

namespace caravan::parity {

// Arrays have PyTorch's names and layouts; all their axes are output axes.
using Arrays = std::map<std::string, Array>;

struct Fixture {
  std::string name;
  ModelDescription model;
  Loss loss;
  Optimizer optimizer;
  int64_t steps;
  Array x, y;         // one batch per step: steps, batch, ...
  Arrays parameters;  // before the first step, by name
  Arrays buffers;
  Arrays results;  // what PyTorch got: losses, grad.NAME, final.NAME, final_buffer.NAME, eval_output
};

// ConfigError, one sentence, where something is missing or unknown. What does not fit the model shows when it is run.
Fixture fixture_from(const data::Tensors& tensors);

}  // namespace caravan::parity
