#include "caravan/tensor/program.h"

#include <unordered_map>
#include <unordered_set>

#include "caravan/base/error.h"
#include "caravan/ops/table.h"
#include "caravan/tensor/graph.h"

namespace caravan {

Program& Program::add(Assignment assignment) {
  const StateNode* state = assignment.state.node().state();
  if (!state)
    throw StateError("only a parameter or a state can be assigned to, not `" + assignment.state.node().label + "` (" + to_string(assignment.where) + ").");
  for (const Assignment& other : assignments_)
    if (other.state.node().state()->name == state->name)
      throw StateError("`" + state->name + "` is assigned twice in one program: at " + to_string(other.where) + " and at " + to_string(assignment.where) +
                       "; use then(p, q) if one comes after the other.");
  assignments_.push_back(std::move(assignment));
  return *this;
}

Program& Program::add_observed(const Tensor& tensor) {
  tensor.node();
  for (const Tensor& other : observed_)
    if (other.same_as(tensor)) return *this;
  observed_.push_back(tensor);
  return *this;
}

Program assign(const Tensor& state, Operand value) { return Program().add({state, value.tensor, value.where}); }
Program observe(const Tensor& tensor) { return Program().add_observed(tensor); }
Program observe(const std::vector<Tensor>& tensors) {
  Program out;
  for (const Tensor& t : tensors) out.add_observed(t);
  return out;
}

Program operator&(const Program& p, const Program& q) {
  Program out = p;
  for (const auto& a : q.assignments()) out.add(a);
  for (const Tensor& t : q.observed()) out.add_observed(t);
  return out;
}

Program then(const Program& p, const Program& q) {
  std::vector<Tensor> from, to, roots;
  for (const auto& a : p.assignments()) from.push_back(a.state), to.push_back(a.value);
  for (const auto& a : q.assignments()) roots.push_back(a.value);
  for (const Tensor& t : q.observed()) roots.push_back(t);
  std::vector<Tensor> replaced = substitute(roots, from, to);

  Program out;
  for (const auto& a : p.assignments()) {
    bool again = false;
    for (const auto& b : q.assignments()) again = again || b.state.same_as(a.state);
    if (!again) out.add(a);
  }
  size_t i = 0;
  for (const auto& a : q.assignments()) out.add({a.state, replaced[i++], a.where});
  for (const Tensor& t : p.observed()) out.add_observed(t);
  for (; i < replaced.size(); ++i) out.add_observed(replaced[i]);
  return out;
}

Program add_to(const Tensor& state, Operand value) { return assign(state, Operand(Operand(state, value.where) + value, value.where)); }
Program add_to(const Tensor& state, Spec<1> spec, Operand value, const Bindings& bindings) {
  return add_to(state, Operand(einsum(spec, value, bindings), value.where));
}

// The slice's relation writes the value, and a mask of ones, into the shape of the state.
Program update(const Tensor& state, const Index& at, Operand value) {
  auto link = std::make_shared<const Link>(Link{shape::slice_relation(at.symbol()), value.where});
  auto spread = [&](ir::Body body, const char* label) {
    return make_accumulate(link, 0, Accumulator::add, std::make_shared<const ir::Body>(std::move(body)), {{value.tensor, 1}, {state, 0}}, 0, label, value.where);
  };
  Tensor mask = spread(ir::Body::number(1), "mask"), placed = spread(ir::Body::identity(), "placed");
  return assign(state, Operand(where(mask, placed, state), value.where));
}

Program when(Operand condition, const Program& program) {
  Program out;
  for (const auto& a : program.assignments())
    out.add({a.state, where(condition, Operand(a.value, a.where), Operand(a.state, a.where)), a.where});
  for (const Tensor& t : program.observed()) out.add_observed(t);
  return out;
}

std::vector<Tensor> substitute(const std::vector<Tensor>& roots, const std::vector<Tensor>& from, const std::vector<Tensor>& to) {
  std::unordered_map<const Node*, Tensor> replaced;
  for (size_t i = 0; i < from.size(); ++i) replaced[&from[i].node()] = to[i];
  auto of = [&](const Tensor& t) {
    auto at = replaced.find(&t.node());
    return at == replaced.end() ? t : at->second;
  };
  for (const Tensor& t : topological(roots, false)) {
    if (replaced.count(&t.node())) continue;
    bool changed = false;
    for_each_child(t.node(), [&](const Tensor& child) { changed = changed || !of(child).same_as(child); });
    if (!changed) continue;
    auto node = std::make_shared<Node>(t.node());
    for (Tensor& s : node->shape_operands) s = of(s);
    match(
        node->kind, [&](AccumulateNode& n) { for (auto& o : n.operands) o.tensor = of(o.tensor); },
        [&](RandomNode& n) {
          if (n.step.defined()) n.step = of(n.step);
          if (n.like.defined()) n.like = of(n.like);
        },
        [](auto&) {});
    if (node->custom) {
      CustomGradient custom = *node->custom;
      for (Tensor& input : custom.inputs) input = of(input);
      node->custom = std::make_shared<const CustomGradient>(std::move(custom));
    }
    replaced[&t.node()] = Tensor(std::move(node));
  }
  std::vector<Tensor> out;
  for (const Tensor& t : roots) out.push_back(of(t));
  return out;
}

std::vector<Tensor> parameters(const std::vector<Tensor>& roots) {
  std::vector<Tensor> out;
  for (const Tensor& t : topological(roots, true))
    if (const StateNode* s = t.node().state(); s && s->parameter) out.push_back(t);
  return out;
}
std::vector<Tensor> parameters(const Tensor& root) { return parameters(std::vector<Tensor>{root}); }

}  // namespace caravan
