#include "caravan/tensor/program.h"

#include <unordered_map>
#include <unordered_set>

#include "caravan/base/error.h"
#include "caravan/ops/op.h"
#include "caravan/tensor/functions.h"
#include "caravan/tensor/graph.h"
#include "caravan/tensor/infer.h"

namespace caravan {

bool same_owner(const StateOwnerRef& a, const StateOwnerRef& b) {
  return a == b || (a && b && !a->shared_as.empty() && a->shared_as == b->shared_as);
}
void check_owner(const std::string& state, const StateOwnerRef& has, const StateOwnerRef& wants) {
  if (!has || !wants || same_owner(has, wants)) return;
  const std::string first = to_string(has->where), second = to_string(wants->where);
  const std::string other = first == second ? "another `" + wants->name +
                                                  "`, which the same line made later (in a loop, or in a "
                                                  "function that is called for each size),"
                                            : "the `" + wants->name + "` made at " + second;
  throw StateError("`" + state + "` belongs to the `" + has->name + "` made at " + first + "; " + other +
                       " would change it too. To go on with its values, " + wants->to_share +
                       "; for a state of its own, give one of them another name; to begin anew, call reset(\"" +
                       has->name + "\") of the Context first.",
                   wants->where);
}

Program& Program::add(Assignment assignment) {
  const StateNode* state = assignment.state.node().state();
  if (!state)
    throw StateError("only a parameter or a state can be assigned to, not `" + describe(assignment.state) + "`" +
                         where_text(assignment.where) + ".",
                     assignment.where);
  auto [at, added] = assigned_.try_emplace(state->name, assignments_.size());
  if (!added) check_owner(state->name, assignments_[at->second].state.node().state()->owner, state->owner);
  if (!added)
    throw StateError("`" + state->name + "` is assigned twice in one program: at " +
                         to_string(assignments_[at->second].where) + " and at " + to_string(assignment.where) +
                         "; use then(p, q) if one comes after the other.",
                     assignments_[at->second].where);
  assignments_.push_back(std::move(assignment));
  return *this;
}

Program& Program::add_observed(const Tensor& as, const Tensor& value) {
  value.node();
  auto [at, added] = observed_at_.try_emplace(&as.node(), observed_.size());
  if (!added) {
    if (observed_[at->second].same_as(value)) return *this;
    throw StateError("`" + as.node().label + "`" + where_text(as.node().where) +
                         " is observed twice in one program, before and after its states change.",
                     as.node().where);
  }
  observed_.push_back(value), observed_as_.push_back(as);
  return *this;
}

Program assign(const Tensor& state, Operand value) { return Program().add({state, value.tensor, value.where}); }
Program observe(const Tensor& tensor) { return Program().add_observed(tensor); }
Program observe(const std::vector<Tensor>& tensors) {
  Program out;
  for (const Tensor& t : tensors) out.add_observed(t);
  return out;
}

Program& Program::operator&=(const Program& other) {
  for (const auto& a : other.assignments_) add(a);
  for (size_t i = 0; i < other.observed_.size(); ++i) add_observed(other.observed_as_[i], other.observed_[i]);
  return *this;
}
Program operator&(Program p, const Program& q) {
  p &= q;
  return p;
}

Program then(const Program& p, const Program& q) {
  std::vector<Tensor> from, to, roots;
  for (const auto& a : q.assignments()) roots.push_back(a.value);
  for (const Tensor& t : q.observed()) roots.push_back(t);

  // States of one name are one state, also where p and q made their own leaves for it (two optimisers with a counter).
  std::unordered_map<std::string, Tensor> leaves, values;
  std::vector<Tensor> all = p.observed();
  for (const auto& a : p.assignments())
    all.push_back(a.value), all.push_back(a.state), values[a.state.node().state()->name] = a.value;
  for (const Tensor& t : topological(all, false))
    if (const StateNode* s = t.node().state()) leaves.emplace(s->name, t);
  std::vector<Tensor> mine = roots;
  for (const auto& a : q.assignments()) mine.push_back(a.state);
  for (const Tensor& t : topological(mine, false)) {
    const StateNode* s = t.node().state();
    if (!s) continue;
    if (auto leaf = leaves.find(s->name); leaf != leaves.end())
      check_owner(s->name, leaf->second.node().state()->owner, s->owner);
    if (auto at = values.find(s->name); at != values.end())
      from.push_back(t), to.push_back(at->second);
    else if (auto leaf = leaves.find(s->name); leaf != leaves.end() && !leaf->second.same_as(t))
      from.push_back(t), to.push_back(leaf->second);
  }
  std::vector<Tensor> replaced = substitute(roots, from, to);

  Program out;
  std::unordered_set<std::string> assigned_again;
  for (const auto& b : q.assignments()) assigned_again.insert(b.state.node().state()->name);
  for (const auto& a : p.assignments())
    if (!assigned_again.count(a.state.node().state()->name)) out.add(a);
  size_t i = 0;
  for (const auto& a : q.assignments()) {
    auto leaf = leaves.find(a.state.node().state()->name);
    out.add({leaf == leaves.end() ? a.state : leaf->second, replaced[i++], a.where});
  }
  std::unordered_set<const Node*> again;  // observed by q
  for (const Tensor& t : q.observed_as()) out.add_observed(t, replaced[i++]);
  again.clear();
  for (const Tensor& t : q.observed_as()) again.insert(&t.node());
  for (size_t k = 0; k < p.observed().size(); ++k)
    if (!again.count(&p.observed_as()[k].node())) out.add_observed(p.observed_as()[k], p.observed()[k]);
  return out;
}

Program add_to(const Tensor& state, Operand value) {
  return assign(state, Operand(Operand(state, value.where) + value, value.where));
}
Program add_to(const Tensor& state, Spec<1> spec, Operand value, const Bindings& bindings) {
  return add_to(state, Operand(einsum(spec, value, bindings), value.where));
}

// The slice's relation writes the value, and a mask of ones, into the shape of the state.
Program update(const Tensor& state, const Index& at, Operand value) {
  const WrittenAt call(value.where);
  const Tensor slice = state[{at, value.where.file, value.where.line}];
  return assign(
      state, Operand(with_slice(state, at, value, "n", "... | ... -> ...", "n, ... | ... -> ...", slice), value.where));
}

Program when(Operand condition, const Program& program) {
  Program out;
  for (const auto& a : program.assignments())
    out.add({a.state, where(condition, Operand(a.value, a.where), Operand(a.state, a.where)), a.where});
  for (size_t i = 0; i < program.observed().size(); ++i)
    out.add_observed(program.observed_as()[i], program.observed()[i]);
  return out;
}

std::vector<Tensor> substitute(const std::vector<Tensor>& roots, const std::vector<Tensor>& from,
                               const std::vector<Tensor>& to) {
  std::unordered_map<const Node*, Tensor> replaced;
  for (size_t i = 0; i < from.size(); ++i) replaced[&from[i].node()] = to[i];
  auto of = [&](const Tensor& t) {
    auto at = replaced.find(&t.node());
    return at == replaced.end() ? t : at->second;
  };
  for (const Tensor& t : topological(roots, false)) {
    if (replaced.count(&t.node()) || t.node().state())
      continue;  // a state shaped like another stays the one of its name
    bool changed = false;
    for_each_child(t.node(), [&](const Tensor& child) { changed = changed || !of(child).same_as(child); });
    if (!changed) continue;
    auto node = std::make_shared<Node>(t.node());
    for (Tensor& s : node->shape_operands) s = of(s);
    match(
        node->kind,
        [&](AccumulateNode& n) {
          for (auto& o : n.operands) o.tensor = of(o.tensor);
        },
        [&](RandomNode& n) {
          n.step = of(n.step);
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
