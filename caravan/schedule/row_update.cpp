#include "caravan/schedule/row_update.h"

#include <map>
#include <set>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// The two loops of an update, and all its other statements in order.
struct Elementwise {
  const For *outer = nullptr, *inner = nullptr;
  Block body;
};
std::optional<Elementwise> elementwise(const Kernel& kernel) {
  Elementwise out;
  if (library_call(kernel) || !kernel.after.empty() || !kernel.locals.empty()) return std::nullopt;
  const Block* block = &statements(kernel);
  for (const For** loop : {&out.outer, &out.inner}) {
    *loop = after_definitions<For>(*block);
    if (!*loop || (*loop)->kind != LoopKind::serial || (*loop)->group) return std::nullopt;
    out.body.insert(out.body.end(), block->begin(), block->end() - 1);
    block = &(*loop)->body;
  }
  out.body.insert(out.body.end(), block->begin(), block->end());
  return out;
}

bool is_arithmetic(const Define& define, DType dtype) {
  if (std::holds_alternative<Constant>(define.value) || std::holds_alternative<Load>(define.value)) return true;
  auto* apply = std::get_if<Apply>(&define.value);
  return apply && apply->compute == dtype &&
         (apply->op == Op::add || apply->op == Op::sub || apply->op == Op::mul || apply->op == Op::neg);
}

}  // namespace

std::optional<RowUpdate> row_update(const Module& module, Kernel& kernel, const ContractionNest& nest,
                                    const Kernel& next) {
  const Load* columns = plain_load(module, nest, nest.column_factor);
  const std::optional<Elementwise> update = elementwise(next);
  if (!columns || !update || nest.row.extent != 1 || !nest.outer.empty() || nest.terms.size() != 1 || nest.is_blocked())
    return std::nullopt;
  const ContractionNest::Loop& term = nest.terms[0];
  if (update->outer->extent != term.extent || update->inner->extent != nest.column.extent) return std::nullopt;

  // What the product stores, and whether it reads the matrix in another place.
  std::set<ir::BufferId> stored;
  int reads = 0;
  for (const Block* block : {&nest.definitions, &nest.epilogue})
    for_each_access(*block, [&](const Access& a) {
      if (a.write) stored.insert(a.buffer);
      reads += a.buffer == columns->buffer;
    });
  if (reads != 1 || stored.count(columns->buffer)) return std::nullopt;

  // The update, with the variables of the product.
  RowUpdate out;
  out.body = update->body;
  rename(out.body,
         {nullptr, [&](Variable v) { return v == update->outer->variable ? term.variable : nest.column.variable; },
          nullptr});
  int stores = 0;
  bool fits = true;
  std::map<Register, Register> own;  // by register of the update: the product's
  auto made = [&](Register r) {
    own[r] = -1;
    return next.registers[size_t(r)] == nest.dtype;
  };
  for (const Statement& s : out.body) {
    fits = fits && match(
                       s,
                       [&](const Define& d) {
                         auto* load = std::get_if<Load>(&d.value);
                         if (!made(d.to) || !is_arithmetic(d, nest.dtype)) return false;
                         if (!load) return true;
                         const bool matrix = load->buffer == columns->buffer;
                         const int64_t step = coefficient(load->offset, nest.column.variable);
                         if (matrix) out.old = d.to;
                         return !load->offset.has_load() && (step == 0 || step == 1) && !stored.count(load->buffer) &&
                                module.buffers[size_t(load->buffer)].dtype == nest.dtype &&
                                (!matrix || load->offset == columns->offset);
                       },
                       [&](const Reset& r) { return made(r.to) && r.value == 0; },
                       [](const Combine& c) { return c.accumulator == Accumulator::add; },
                       [&](const Store& st) {
                         ++stores;
                         return st.buffer == columns->buffer && st.offset == columns->offset;
                       },
                       [](const OneOf<CombineFirst, StoreCombine, StoreFirst, Move, Barrier, Prefetch, For, If> auto&) {
                         return false;
                       });
  }
  if (!fits || stores != 1 || out.old < 0 || !std::holds_alternative<Store>(out.body.back())) return std::nullopt;
  for (auto& [theirs, ours] : own) ours = add_register(kernel, nest.dtype);
  rename(out.body, {[&](Register r) { return own.at(r); }, nullptr, nullptr});
  out.old = own.at(out.old);
  return out;
}

}  // namespace caravan::schedule
