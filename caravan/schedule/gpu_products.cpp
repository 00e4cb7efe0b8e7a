#include "caravan/schedule/gpu_products.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// The body of the outer loops, taken apart.
struct ProductSum {
  Block before;              // definitions
  std::vector<For> terms;    // the loops of the sum, outermost first, without bodies
  Block point;               // definitions in the innermost of them
  std::vector<Term> guards;  // a term counts only where they hold
  Combine combine;
};

// The loops over terms, if they contain nothing but definitions, guards and one fused product.
bool take_terms(const Block& body, ProductSum& out) {
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
    out.terms.push_back({loop->variable, loop->extent, LoopKind::serial, {}});
    return loop->kind == LoopKind::serial && take_terms(loop->body, out);
  }
  auto* combine = std::get_if<Combine>(&body.back());
  if (!combine || combine->factor < 0) return false;
  out.combine = *combine;
  return true;
}

// Can a statement be executed for one sum after the other, when the sum is known?
bool can_follow(const Statement& s, Register total) {
  return match(
      s, [](const OneOf<Define, Store> auto&) { return true; }, [&](const Combine&) { return false; },
      [&](const If& guard) {
        return std::all_of(guard.body.begin(), guard.body.end(),
                           [&](const Statement& i) { return can_follow(i, total); });
      },
      [](const OneOf<Reset, CombineFirst, StoreCombine, StoreFirst, Barrier, For> auto&) { return false; });
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

// May the product be computed as if the factor that the guards belong to were 0 where they do not hold? They must
// belong to one factor alone, and the other one must be in range without them.
bool guards_one_factor(const ProductSum& sum, const std::vector<For>& rows, const std::vector<For>& columns,
                       const std::vector<For>& batch, Register left, Register right,
                       const std::vector<const Define*>& definitions, const Module& module) {
  auto in = [](const std::vector<For>& loops, Variable v) {
    return std::any_of(loops.begin(), loops.end(), [&](const For& f) { return f.variable == v; });
  };
  bool of_rows = false, of_columns = false;
  for (const Term& term : sum.guards)
    for (const Term::Part& part : term.parts) {
      if (part.kind != Term::Part::Kind::iterator) return false;
      of_rows = of_rows || in(rows, part.which), of_columns = of_columns || in(columns, part.which);
    }
  if (of_rows && of_columns) return false;
  std::map<Variable, int64_t> extents;
  for (const std::vector<For>* loops : {&rows, &columns, &batch, &sum.terms})
    for (const For& f : *loops) extents[f.variable] = f.extent;
  const Register other = of_columns ? left : right;
  for (const Define* d : definitions) {
    if (d->to != other) continue;
    auto* load = std::get_if<Load>(&d->value);
    if (!load || load->buffer.is_local()) return false;
    const LoopOffset offset = loop_offset(load->offset, {}, extents);
    const int64_t elements = module.buffers[size_t(load->buffer)].shape.elements();
    return offset.known && offset.fixed.empty() && offset.low >= 0 && offset.high < elements;
  }
  return false;
}

// The largest tile of which there are enough for all multiprocessors, else the smallest. Few tiles of many terms are
// computed in slices.
Contraction tiled(Contraction c, DType dtype, const Gpu& gpu) {
  auto tiles = [&](int64_t rows, int64_t columns) {
    return c.batch * ((c.rows + rows - 1) / rows) * ((c.columns + columns - 1) / columns);
  };
  for (const int64_t size : {int64_t(128), int64_t(64), int64_t(32)}) {
    c.tile_rows = c.tile_columns = size, c.own = size == 128 ? 8 : 4;
    if (tiles(size, size) * (size == 64 ? 2 : 1) >= gpu.multiprocessors) break;
  }
  // Slices have shared memory of their own, twice as much for numbers of 8 bytes.
  const int64_t most = (c.tile_rows == 32 ? 8 : c.tile_rows == 64 ? 2 : 1) / (bytes(dtype) == 8 ? 2 : 1);
  while (c.slices < most && c.terms >= 64 * c.slices &&
         tiles(c.tile_rows, c.tile_columns) * c.slices < 2 * gpu.multiprocessors)
    c.slices *= 2;
  return c;
}

}  // namespace

bool mark_product(const Module& module, Kernel& kernel, const std::vector<For*>& outer, const Target& target) {
  if (outer.empty()) return false;
  // All definitions between the outer loops move to their innermost body.
  ProductSum sum;
  for (const Statement& s : statements(kernel))
    if (std::holds_alternative<Define>(s)) sum.before.push_back(s);
  for (size_t k = 0; k + 1 < outer.size(); ++k)
    for (const Statement& s : outer[k]->body)
      if (std::holds_alternative<Define>(s)) sum.before.push_back(s);
  const Block& body = outer.back()->body;
  size_t at = 0;
  for (; at < body.size() && std::holds_alternative<Define>(body[at]); ++at) sum.before.push_back(body[at]);
  auto* reset = at < body.size() ? std::get_if<Reset>(&body[at++]) : nullptr;
  for (; reset && at < body.size() && std::holds_alternative<Define>(body[at]); ++at) sum.before.push_back(body[at]);
  if (!reset || reset->value != 0 || at >= body.size() || !inside(body[at])) return false;
  if (!take_terms({body[at++]}, sum) || sum.terms.empty() || sum.combine.to != reset->to) return false;
  const DType dtype = kernel.registers[size_t(reset->to)].dtype;
  if (sum.combine.accumulator != Accumulator::add || !is_float(dtype)) return false;
  for (size_t k = at; k < body.size(); ++k)
    if (!can_follow(body[k], reset->to)) return false;

  std::vector<const Define*> definitions;
  for (const Block* block : {&sum.before, &sum.point})
    for (const Statement& s : *block) definitions.push_back(&std::get<Define>(s));
  std::set<Variable> of_left = variables_of(sum.combine.value, definitions),
                     of_right = variables_of(sum.combine.factor, definitions);
  std::vector<For> batch, rows, columns;
  auto without_body = [](const For& f) { return For{f.variable, f.extent, LoopKind::serial, {}}; };
  // Columns are the axis along which results are stored: the innermost outer loop.
  Register left = sum.combine.value, right = sum.combine.factor;
  if (of_left.count(outer.back()->variable) && !of_right.count(outer.back()->variable)) {
    std::swap(of_left, of_right);
    std::swap(left, right);
  }
  for (const For* f : outer) {
    const bool in_left = of_left.count(f->variable) > 0, in_right = of_right.count(f->variable) > 0;
    (in_left == in_right ? batch : in_left ? rows : columns).push_back(without_body(*f));
  }
  if (!sum.guards.empty() && !guards_one_factor(sum, rows, columns, batch, left, right, definitions, module))
    return false;
  Contraction shape;
  for (const For& f : batch) shape.batch *= f.extent;
  for (const For& f : rows) shape.rows *= f.extent;
  for (const For& f : columns) shape.columns *= f.extent;
  for (const For& f : sum.terms) shape.terms *= f.extent;
  const Gpu& gpu = target.gpu;
  if (shape.rows < gpu.least_tile || shape.columns < gpu.least_tile || shape.terms < gpu.least_tile ||
      shape.batch * shape.rows * shape.columns * shape.terms < gpu.least_tiled)
    return false;
  shape = tiled(shape, dtype, gpu);
  shape.tf32 = gpu.tf32 && dtype == DType::f32;
  // Few sums of many terms: the lanes of groups share the terms of each.
  if (shape.batch * shape.rows * shape.columns < gpu.least_sums && shape.terms >= gpu.many_terms) return false;

  Block inner = std::move(sum.before);
  inner.push_back(*reset);
  Block point = std::move(sum.point);
  point.push_back(Combine{reset->to, Accumulator::add, left, right});
  if (!sum.guards.empty()) {
    Block guarded;
    guarded.push_back(If{std::move(sum.guards), std::move(point)});
    point = std::move(guarded);
  }
  auto wrap = [](std::vector<For>& loops, LoopKind kind, Block block) {
    int64_t chunk = 1;
    for (size_t k = loops.size(); k-- > 0;) {
      For f = std::move(loops[k]);
      f.kind = kind, f.chunk = chunk, f.body = std::move(block);
      chunk *= f.extent;
      block = Block();
      block.push_back(std::move(f));
    }
    return block;
  };
  append(inner, wrap(sum.terms, LoopKind::terms, std::move(point)));
  inner.insert(inner.end(), body.begin() + std::ptrdiff_t(at), body.end());
  if (batch.empty()) batch.push_back({add_variable(kernel, "once"), 1, LoopKind::serial, {}});
  Block nest =
      wrap(batch, LoopKind::grid, wrap(rows, LoopKind::rows, wrap(columns, LoopKind::columns, std::move(inner))));
  kernel.body = std::move(nest);
  kernel.contractions = {shape};
  const int threads = int(shape.tile_rows * shape.tile_columns / (shape.own * shape.own) * shape.slices);
  kernel.grid = {threads, false, threads};
  return true;
}

}  // namespace caravan::schedule
