// Linear maps and what is made of them alone.
#pragma once

#include "caravan/nn/activation.h"
#include "caravan/nn/layer.h"

namespace caravan::nn {

// y = weight(x) + bias, over all output axes of x. What is not given is inferred; the bias has the output's axes.
struct LinearOptions {
  GivenRow output{}, input{};
  bool bias = true;
  Init init{}, bias_init = zeros();
  DType dtype = DType::f32;
};
struct Linear {
  std::string name;
  Tensor weight, bias;  // `input -> output` and `output`, named NAME.weight and NAME.bias
  explicit Linear(std::string name, const LinearOptions& options = {}, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};

// Linear maps NAME.0, NAME.1, ... of the given widths, the activation between them.
struct MlpOptions {
  Extents widths{};  // of the hidden layers, then of the output
  Layer activation = Relu();
  bool bias = true;
  Init init{};
  DType dtype = DType::f32;
};
struct Mlp {
  Layer activation;
  std::vector<Linear> layers;
  explicit Mlp(const std::string& name, const MlpOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};

// down(silu(gate(x)) * up(x)): the gated feed-forward layer of Llama (Shazeer 2020).
struct SwigluOptions {
  int64_t hidden = 0, output = 0;
  bool bias = false;
  Init init{};
  DType dtype = DType::f32;
};
struct Swiglu {
  Linear gate, up, down;
  explicit Swiglu(const std::string& name, const SwigluOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};

// In training each element is 0 with probability `rate`, the others grow by 1 / (1 - rate). The draw depends on the
// seed, the layer's name and the phase's step alone.
struct Dropout {
  std::string name;
  double rate;
  Dropout(std::string name, double rate, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};

}  // namespace caravan::nn
