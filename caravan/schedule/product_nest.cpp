#include "caravan/schedule/product_nest.h"

#include <algorithm>
#include <functional>
#include <set>

#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

For without_body(const For& f) { return {f.variable, f.extent, LoopKind::serial, {}}; }

// The loops over terms, if they contain nothing but definitions, guards and one fused product.
bool take_terms(const Block& body, ProductNest& out) {
  if (body.empty()) return false;
  for (size_t k = 0; k + 1 < body.size(); ++k) {
    if (!std::holds_alternative<Define>(body[k])) return false;
    out.point.push_back(body[k]);
  }
  if (auto* guard = std::get_if<If>(&body.back())) {
    out.guards.insert(out.guards.end(), guard->where.begin(), guard->where.end());
    return take_terms(guard->body, out);
  }
  if (auto* loop = std::get_if<For>(&body.back())) {
    out.terms.push_back(without_body(*loop));
    return loop->kind == LoopKind::serial && take_terms(loop->body, out);
  }
  auto* combine = std::get_if<Combine>(&body.back());
  if (!combine || combine->factor < 0 || combine->to != out.sum || combine->accumulator != Accumulator::add)
    return false;
  out.left = combine->value, out.right = combine->factor;
  return true;
}

// Can a statement be executed for one sum after the other, when the sum is known?
bool can_follow(const Statement& s) {
  return match(
      s, [](const OneOf<Define, Store> auto&) { return true; },
      [&](const If& guard) { return std::all_of(guard.body.begin(), guard.body.end(), can_follow); },
      [](const OneOf<Reset, Combine, CombineFirst, StoreCombine, StoreFirst, Move, Barrier, Prefetch, For> auto&) {
        return false;
      });
}

// The variables that a register depends on, through definitions of these blocks.
std::set<Variable> variables_of(Register r, const std::vector<const Define*>& definitions) {
  std::set<Variable> out;
  std::set<Register> seen;
  std::function<void(Register)> visit = [&](Register at) {
    if (!seen.insert(at).second) return;
    for (const Define* d : definitions) {
      if (d->to != at) continue;
      auto add = [&](const Term& term) {
        for (const Term::Part& part : term.parts)
          if (part.kind == Term::Part::Kind::iterator) out.insert(part.which);
      };
      if (auto* load = std::get_if<Load>(&d->value)) add(load->offset);
      if (auto* index = std::get_if<IndexValue>(&d->value)) add(index->term);
      if (auto* random = std::get_if<RandomValue>(&d->value)) add(random->element);
      for_each_use(*d, visit);
    }
  };
  visit(r);
  return out;
}

}  // namespace

Contraction ProductNest::sizes() const {
  Contraction out;
  for (const For& f : batch) out.batch *= f.extent;
  for (const For& f : rows) out.rows *= f.extent;
  for (const For& f : columns) out.columns *= f.extent;
  for (const For& f : terms) out.terms *= f.extent;
  return out;
}

std::optional<ProductNest> product_nest(const Kernel& kernel, const std::vector<const For*>& outer) {
  if (outer.empty()) return std::nullopt;
  // All definitions between the outer loops move to their innermost body.
  ProductNest out;
  auto add_definitions = [&](const Block& block) {
    for (const Statement& s : block)
      if (std::holds_alternative<Define>(s)) out.before.push_back(s);
  };
  add_definitions(statements(kernel));
  for (size_t k = 0; k + 1 < outer.size(); ++k) add_definitions(outer[k]->body);
  const Block& body = outer.back()->body;
  size_t at = 0;
  for (; at < body.size() && std::holds_alternative<Define>(body[at]); ++at) out.before.push_back(body[at]);
  auto* reset = at < body.size() ? std::get_if<Reset>(&body[at++]) : nullptr;
  for (; reset && at < body.size() && std::holds_alternative<Define>(body[at]); ++at) out.before.push_back(body[at]);
  if (!reset || reset->value != 0 || at >= body.size() || !inside(body[at])) return std::nullopt;
  out.sum = reset->to;
  if (!is_float(kernel.registers[size_t(out.sum)].dtype)) return std::nullopt;
  if (!take_terms({body[at++]}, out) || out.terms.empty()) return std::nullopt;
  out.after.assign(body.begin() + std::ptrdiff_t(at), body.end());
  if (!std::all_of(out.after.begin(), out.after.end(), can_follow)) return std::nullopt;

  std::vector<const Define*> definitions;
  for (const Block* block : {&out.before, &out.point})
    for (const Statement& s : *block) definitions.push_back(&std::get<Define>(s));
  std::set<Variable> of_left = variables_of(out.left, definitions), of_right = variables_of(out.right, definitions);
  // Columns are the axis along which results are stored: the innermost outer loop.
  if (of_left.count(outer.back()->variable) && !of_right.count(outer.back()->variable)) {
    std::swap(of_left, of_right);
    std::swap(out.left, out.right);
  }
  for (const For* f : outer) {
    const bool in_left = of_left.count(f->variable) > 0, in_right = of_right.count(f->variable) > 0;
    (in_left == in_right ? out.batch : in_left ? out.rows : out.columns).push_back(without_body(*f));
  }
  return out;
}

}  // namespace caravan::schedule
