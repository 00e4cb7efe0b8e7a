// What a fixture says in words: the model, its loss and its optimiser, with PyTorch's names, meanings and defaults.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "caravan/train/optimizer.h"

namespace caravan::parity {

using Sizes = std::vector<int64_t>;
using Pair = std::array<int64_t, 2>;  // height, width

struct Linear {
  int64_t in, out;
  bool bias;
};
struct Conv2d {
  int64_t in, out;
  Pair kernel, stride, padding, dilation;
  int64_t groups;
  bool bias;
};
struct Pool2d {
  enum class Kind : uint8_t { max, average } kind;
  Pair kernel, stride, padding;
};
struct Flatten {};
struct FlattenConsecutive {
  int64_t n;
};
struct BatchNorm {
  bool images;       // channels are the first axis after the batch, otherwise features are the last
  int64_t features;  // 0: as many as there are
  double eps, momentum;
};
struct LayerNorm {
  Sizes sizes;  // of the last axes; empty: of the last one
  double eps;
};
struct Embedding {
  int64_t num, dim;
};
struct Activation {
  std::string name;  // of a row of the op table
};
struct Residual;
using Layer = std::variant<Linear, Conv2d, Pool2d, Flatten, FlattenConsecutive, BatchNorm, LayerNorm, Embedding,
                           Activation, Residual>;
struct Residual {
  std::vector<Layer> body;
};

struct Sequential {
  std::vector<Layer> layers;
};
struct Gpt {
  int64_t vocab, ctx, dim, heads, layers;
  bool tied;       // the head is the token table
  bool head_bias;  // not in the words: a fixture that has the tensor says so
};
using ModelDescription = std::variant<Sequential, Gpt>;

enum class Loss : uint8_t { mse, hinge, cross_entropy };

// ConfigError, one sentence that names the layer, what is wrong with it and what there is instead.
ModelDescription parse_model(const std::string& json);
Loss parse_loss(const std::string& name);
Optimizer parse_optimizer(const std::string& json);

}  // namespace caravan::parity
