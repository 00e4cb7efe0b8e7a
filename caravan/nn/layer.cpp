#include "caravan/nn/layer.h"

#include "caravan/tensor/graph.h"

namespace caravan::nn {

std::vector<Tensor> states_of(const Tensor& outline) {
  std::vector<Tensor> out;
  for (const Tensor& t : topological({outline}, true)) {
    const StateNode* s = t.node().state();
    if (s && !s->parameter && s->name != kOutlineInputs[0] && s->name != kOutlineInputs[1]) out.push_back(t);
  }
  return out;
}

}  // namespace caravan::nn
