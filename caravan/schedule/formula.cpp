#include "caravan/schedule/formula.h"

#include <functional>

#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

std::optional<Formula> formula(const Kernel& kernel) {
  Formula out;
  bool valid = true;
  Register total = -1;
  // Loops and guards around definitions, down to the store of the value or to the accumulator's own loops.
  std::function<void(const Block&, bool)> read = [&](const Block& block, bool inner) {
    for (const Statement& s : block)
      match(
          s, [&](const Define& d) { valid = valid && out.definitions.emplace(d.to, &d).second; },
          [&](const Reset& r) {
            valid = valid && total < 0 && !inner;
            total = r.to, out.accumulates = true;
          },
          [&](const Combine& c) {
            valid = valid && c.to == total && out.value < 0;
            out.accumulator = c.accumulator, out.value = c.value, out.factor = c.factor;
          },
          [&](const Store& store) {
            valid = valid && out.target < 0 && !store.buffer.is_local() && (!out.accumulates || store.value == total);
            if (!out.accumulates) out.value = store.value;
            out.target = store.buffer, out.offset = store.offset;
          },
          [&](const For& f) {
            valid = valid && f.kind == LoopKind::serial && out.extents.emplace(f.variable, f.extent).second;
            if (total >= 0) out.reduced.push_back(f.variable);
            read(f.body, total >= 0);
          },
          [&](const If& guard) {
            out.guards.insert(out.guards.end(), guard.where.begin(), guard.where.end());
            read(guard.body, total >= 0);
          },
          [&](const OneOf<CombineFirst, StoreCombine, StoreFirst, Move, Barrier, Prefetch> auto&) { valid = false; });
  };
  read(statements(kernel), false);
  valid = valid && out.target >= 0 && out.value >= 0 && !out.offset.has_load();
  return valid ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace caravan::schedule
