#include "caravan/codegen/cuda_nest.h"

#include "caravan/loop/walk.h"

namespace caravan::codegen {

using namespace loop;

void take_apart(const Block& block, CudaNest& out) {
  for (const Statement& s : block)
    match(
        s,
        [&](const For& f) {
          (f.kind == LoopKind::grid      ? out.batch
           : f.kind == LoopKind::rows    ? out.rows
           : f.kind == LoopKind::columns ? out.columns
                                         : out.terms)
              .push_back(&f);
          take_apart(f.body, out);
        },
        [&](const Define& d) { (out.combine ? out.after : out.before).push_back(d); },
        [&](const Reset& r) { out.reset = &r; }, [&](const Combine& c) { out.combine = &c; },
        [&](const If& guard) {
          if (out.combine) return out.after.push_back(guard);
          out.guard.where.insert(out.guard.where.end(), guard.where.begin(), guard.where.end());
          take_apart(guard.body, out);
        },
        [&](const OneOf<CombineFirst, Store, StoreCombine, StoreFirst, Move, Barrier, Prefetch> auto& other) {
          out.after.push_back(other);
        });
}

}  // namespace caravan::codegen
