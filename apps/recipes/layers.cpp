#include "apps/recipes/layers.h"

#include <fmt/format.h>

namespace caravan::app {

std::vector<Part::Layer> layers_of(const nn::Mlp& mlp, Tensor x, const std::string& output) {
  std::vector<Part::Layer> out;
  for (size_t i = 0; i < mlp.layers.size(); ++i) {
    const bool last = i + 1 == mlp.layers.size();
    x = mlp.layers[i](x);
    if (!last) x = mlp.activation(x);
    out.push_back({last ? output : fmt::format("hidden {}", i + 1), x});
  }
  return out;
}

std::vector<Part::Layer> with_probabilities(std::vector<Part::Layer> layers) {
  layers.back() = {"probabilities", nn::softmax(layers.back().value)};
  return layers;
}

}  // namespace caravan::app
