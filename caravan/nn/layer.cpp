#include "caravan/nn/layer.h"

#include <algorithm>
#include <unordered_set>

#include "caravan/tensor/graph.h"

namespace caravan::nn {

std::vector<Tensor> leaves_of(const Tensor& outline, bool parameters) {
  std::vector<Tensor> out;
  std::unordered_set<const Node*> listed;
  // An operation stands after those whose results it reads, so that its own leaves come after theirs.
  for (const Tensor& operation : topological({outline}, true))
    for_each_read(operation.node(), [&](const Tensor& leaf) {
      const StateNode* state = leaf.node().state();
      const bool wanted =
          state && state->parameter == parameters && std::ranges::count(kOutlineInputs, state->name) == 0;
      if (wanted && listed.insert(&leaf.node()).second) out.push_back(leaf);
    });
  return out;
}

}  // namespace caravan::nn
