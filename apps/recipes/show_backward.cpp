#include "apps/recipes/show_backward.h"

#include <fmt/format.h>

#include <ostream>
#include <unordered_map>

#include "caravan/autodiff/grad.h"
#include "caravan/tensor/graph.h"

namespace caravan::app {

void show_backward(std::ostream& out, const Tensor& loss, Context& ctx, const IndexValues& values) {
  const std::vector<Tensor> order = topological({loss}, true);  // numbered as print_graph does
  std::unordered_map<const Node*, size_t> number;
  std::unordered_map<const Node*, std::string> readers;
  for (size_t i = 0; i < order.size(); ++i) {
    number[&order[i].node()] = i + 1;
    for_each_read(order[i].node(), [&](const Tensor& read) { readers[&read.node()] += fmt::format(" [{}]", i + 1); });
  }
  std::vector<Tensor> reached;  // parameters, and what is computed from them
  std::unordered_map<const Node*, bool> depends;
  for (const Tensor& t : order) {
    const StateNode* state = t.node().state();
    bool& d = depends[&t.node()] = state && state->parameter;
    for_each_read(t.node(), [&](const Tensor& read) { d = d || depends[&read.node()]; });
    if (d) reached.push_back(t);
  }
  const std::vector<Array> gradients = ctx.eval(grad(loss, reached), values);
  for (size_t i = reached.size(); i-- > 0;) {
    const Node& node = reached[i].node();
    std::string value = to_string(gradients[i], 4);
    for (char& c : value)
      if (c == '\n') c = ' ';
    out << fmt::format("  d loss / d {:<12} = {:<34} {}\n", fmt::format("[{}] {}", number[&node], node.label), value,
                       readers[&node].empty() ? "the start" : "through" + readers[&node]);
  }
}

}  // namespace caravan::app
