// What the layers of a network give, one by one.
#pragma once

#include "apps/recipes/recipe.h"
#include "caravan/nn/nn.h"

namespace caravan::app {

// The hidden layers after their activation as `hidden 1`, `hidden 2`, ...; then the output.
std::vector<Part::Layer> layers_of(const nn::Mlp& mlp, Tensor x, const std::string& output = "output");

// The same with the softmax of the output in its place.
std::vector<Part::Layer> with_probabilities(std::vector<Part::Layer> layers);

}  // namespace caravan::app
