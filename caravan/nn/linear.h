// Linear maps and what is made of them alone.
#pragma once

#include "caravan/nn/activation.h"
#include "caravan/nn/layer.h"

namespace caravan::nn {

// y = weight(x) + bias, over all output axes of x. What is not given is inferred; the bias has the output's axes.
struct LinearOptions {
  GivenRow output{}, input{};        // the axes of its result and of what it is applied to
  bool bias = true;                  // whether a bias is added
  Init init{}, bias_init = zeros();  // how weight and bias are initialised
  DType dtype = DType::f32;          // the precision of the parameters
};
// weight(x) + bias.
struct Linear {
  std::string name;     // the layer's name, which its parameters' names start with
  Tensor weight, bias;  // `input -> output` and `output`, named NAME.weight and NAME.bias
  explicit Linear(std::string name, const LinearOptions& options = {}, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};

// Linear maps NAME.0, NAME.1, ... of the given widths, the activation between them.
struct MlpOptions {
  Extents widths{};           // of the hidden layers, then of the output
  Layer activation = Relu();  // between the linear maps; none after the last
  bool bias = true;           // whether a bias is added
  Init init{};                // how the weights are initialised
  DType dtype = DType::f32;   // the precision of the parameters
};
// Linear maps with an activation between them: a multi-layer perceptron.
struct Mlp {
  Layer activation;            // applied between the linear maps
  std::vector<Linear> layers;  // NAME.0, NAME.1, ..
  explicit Mlp(const std::string& name, const MlpOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};

// down(silu(gate(x)) * up(x)): the gated feed-forward layer of Llama (Shazeer 2020).
struct SwigluOptions {
  int64_t hidden = 0, output = 0;  // the width inside, and that of the result
  bool bias = false;               // whether the three maps have one
  Init init{};                     // how the weights are initialised
  DType dtype = DType::f32;        // the precision of the parameters
};
// The gated feed-forward layer.
struct Swiglu {
  Linear gate, up, down;  // NAME.gate, NAME.up and NAME.down
  explicit Swiglu(const std::string& name, const SwigluOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};

// In training each element is 0 with probability `rate`, the others grow by 1 / (1 - rate). The draw depends on the
// seed, the layer's name and the phase's step alone.
struct Dropout {
  std::string name;  // the layer's name, which its parameters' names start with
  double rate;       // the probability that an element is set to 0
  Dropout(std::string name, double rate, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};

}  // namespace caravan::nn
