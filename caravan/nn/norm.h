// Normalisation. Statistics are of the elements that a norm is over; variances are divided by their number (biased),
// as in PyTorch; only the running variance of batch norm is divided by one less.
#pragma once

#include "caravan/nn/phase.h"

namespace caravan::nn {

// Mean 0 and variance 1 over the axes that the spec keeps as 0, without parameters.
Tensor normalized(Spec<1> spec, Operand x, double epsilon = 1e-5);

// What the norms share.
struct NormOptions {
  double epsilon = 1e-5;     // added to the variance before the root is taken
  DType dtype = DType::f32;  // the precision of the parameters
};

// Mean 0 and variance 1 over the last output axis, then times NAME.weight plus NAME.bias.
struct LayerNorm {
  std::string name;     // the layer's name, which its parameters' names start with
  double epsilon;       // added to the variance before the root is taken
  Tensor weight, bias;  // the parameters NAME.weight and NAME.bias
  explicit LayerNorm(std::string name, const NormOptions& options = {}, Source where = Source::here());
  Tensor operator()(Operand x) const;
};
// Divides by the root mean square: x / sqrt(mean(x^2) + epsilon) * weight, over the last output axis.
struct RmsNorm {
  std::string name;  // the layer's name, which its parameters' names start with
  double epsilon;    // added to the variance before the root is taken
  Tensor weight;     // the parameter NAME.weight
  explicit RmsNorm(std::string name, const NormOptions& options = {}, Source where = Source::here());
  Tensor operator()(Operand x) const;
};
// The last output axis, the channels, in groups: over the channels of a group and all other output axes.
struct GroupNorm {
  std::string name;     // the layer's name, which its parameters' names start with
  int64_t groups;       // into which the channels are divided
  double epsilon;       // added to the variance before the root is taken
  Tensor weight, bias;  // the parameters NAME.weight and NAME.bias
  GroupNorm(std::string name, int64_t groups, const NormOptions& options = {}, Source where = Source::here());
  Tensor operator()(Operand x) const;
};

// For each channel, the last output axis, over all other axes: `b | c`, `b, t | c` (1d) and `b | h, w, c` (2d) alike.
// In training over the batch; the phase's updates move NAME.running_mean and NAME.running_var by `momentum`, and
// evaluation uses those.
struct BatchNormOptions {
  double momentum = 0.1, epsilon = 1e-5;  // the share of a batch in the running statistics; added to the variance
  DType dtype = DType::f32;               // the precision of the parameters
};
// Normalises each channel by the statistics of the batch.
struct BatchNorm {
  std::string name;                                // the layer's name, which its parameters' names start with
  double momentum, epsilon;                        // as given
  Tensor weight, bias, running_mean, running_var;  // two parameters, and two states that training updates
  explicit BatchNorm(std::string name, const BatchNormOptions& options = {}, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};
using BatchNorm1d = BatchNorm;  // the name in PyTorch
using BatchNorm2d = BatchNorm;  // the name in PyTorch

}  // namespace caravan::nn
