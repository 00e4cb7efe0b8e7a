#include "caravan/schedule/narrow_indices.h"

#include <algorithm>
#include <limits>
#include <map>

#include "caravan/loop/dependence.h"
#include "caravan/loop/grid.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// The largest absolute value that a term can have; the largest number if it contains values that are not known.
int64_t bound(const Term& term, const std::map<Variable, int64_t>& extents, const Module& module) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int64_t out = std::abs(term.constant);
  for (const Term::Part& part : term.parts) {
    int64_t most = 0;
    if (part.kind == Term::Part::Kind::load) continue;  // an index in range; the sum is bounded by the buffer's size
    if (part.kind == Term::Part::Kind::symbol)
      most = module.symbols[size_t(part.which)].range;
    else if (auto at = extents.find(part.which); at != extents.end())
      most = at->second;
    if (__builtin_mul_overflow(most, std::abs(part.coefficient), &most) || __builtin_add_overflow(out, most, &out))
      return kMost;
  }
  return out;
}

}  // namespace

bool has_narrow_indices(const Module& module, const Kernel& kernel, int64_t most) {
  bool out = grid_iterations(kernel) < most;
  const std::map<Variable, int64_t> extents = extents_of(statements(kernel));
  auto fits = [&](const Term& term) { out = out && bound(term, extents, module) < most; };
  for_each_access(kernel, [&](const Access& a) {
    out = out && module.buffers[size_t(a.buffer)].shape.elements() < most;
    fits(*a.offset);
  });
  for_each_statement(statements(kernel), [&](const Statement& s) {
    if (auto* define = std::get_if<Define>(&s)) {
      if (auto* index = std::get_if<IndexValue>(&define->value)) fits(index->term);
      if (auto* random = std::get_if<RandomValue>(&define->value)) fits(random->element);
    }
    if (auto* guard = std::get_if<If>(&s)) std::for_each(guard->where.begin(), guard->where.end(), fits);
    if (auto* first = std::get_if<CombineFirst>(&s)) fits(first->term);
    if (auto* loop = std::get_if<For>(&s)) out = out && loop->extent < most && loop->chunk < most;
  });
  return out;
}

}  // namespace caravan::schedule
