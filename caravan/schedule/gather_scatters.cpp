#include "caravan/schedule/gather_scatters.h"

#include <algorithm>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/op.h"
#include "caravan/schedule/scatter_nest.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// Does the loop store the same number, the neutral one of the accumulator, to every element of the buffer?
bool fills(const Statement& statement, const StoreCombine& store, int64_t elements, DType dtype) {
  auto* loop = std::get_if<For>(&statement);
  if (!loop || loop->extent != elements || loop->body.size() != 2) return false;
  auto* number = std::get_if<Define>(&loop->body[0]);
  auto* stored = std::get_if<Store>(&loop->body[1]);
  auto* constant = number ? std::get_if<Constant>(&number->value) : nullptr;
  return constant && stored && stored->buffer == store.buffer && stored->value == number->to &&
         stored->offset == Term::iterator(loop->variable) && constant->value == neutral(store.accumulator, dtype);
}

// Puts the loops into the order of the table in memory, and returns whether they store each of its elements once.
bool in_order(std::vector<For>& loops, const Term& offset, int64_t elements) {
  auto stride = [&](const For& f) { return coefficient(offset, f.variable); };
  std::stable_sort(loops.begin(), loops.end(), [&](const For& a, const For& b) { return stride(a) > stride(b); });
  int64_t inside = 1;
  for (size_t k = loops.size(); k-- > 0;) {
    if (stride(loops[k]) != inside) return false;
    inside *= loops[k].extent;
  }
  return inside == elements && offset.constant == 0 && offset.parts.size() == loops.size();
}

}  // namespace

Module gather_scatters(const Module& module, const Target& target) {
  Module out = module;
  for (Kernel& kernel : out.kernels) {
    if (!has_statements(kernel) || statements(kernel).size() != 2) continue;
    Kernel trial = kernel;
    std::optional<TableSum> sum = table_sum({statements(kernel)[1]}, trial, target.gpu);
    if (!sum || sum->store.buffer.is_local() || sum->work > target.gpu.most_matched) continue;
    const ir::Buffer& table = module.buffers[size_t(sum->store.buffer)];
    if (!fills(statements(kernel)[0], sum->store, table.shape.elements(), table.dtype) ||
        sum->type.dtype != table.dtype || !in_order(sum->outer, sum->offset, table.shape.elements()))
      continue;
    trial.body = sum->nest(Store{sum->store.buffer, sum->offset, sum->total});
    kernel = std::move(trial);
  }
  return out;
}

}  // namespace caravan::schedule
