// Random models of the parity vocabulary, as fixtures without results: words, parameters and data. The seed alone
// decides.
#pragma once

#include <cstdint>
#include <string>

#include "caravan/data/safetensors.h"
#include "caravan/parity/parity.h"

namespace caravan::parity {

// Sizes are small and losses smooth enough that three steps in single precision stay close to three in double: no norm
// over fewer than four elements, and no small epsilon of Adam beside a batch norm, which takes away what biases before
// it add: their gradient is rounding alone, and Adam would blow it up.
struct RandomFixture {
  explicit RandomFixture(uint32_t seed);

  std::string model;
  data::Tensors tensors;
};

// The fixture as PyTorch would have completed it, had it computed what `results` holds.
data::Tensors completed(data::Tensors tensors, const Arrays& results);

}  // namespace caravan::parity
