#include "caravan/schedule/cpu_attention.h"

#include <algorithm>
#include <optional>

#include "caravan/loop/walk.h"
#include "caravan/schedule/attention_maker.h"
#include "caravan/schedule/formula.h"
#include "caravan/target/prelude_sizes.h"

namespace caravan::schedule {

using namespace loop;

namespace {

using namespace prelude_sizes;

class CpuMaker : AttentionMaker {
 public:
  CpuMaker(Module& module, const AttentionChain& chain, const Target& target) : AttentionMaker(module, chain) {
    const Tuning& tuning = target.tuning;
    base_.lanes = target.most_lanes(DType::f32);
    base_.tile_rows = tuning.attention_rows, base_.kept_rows = tuning.attention_kept;
    const int64_t others = 2;  // registers: of a vector of columns and of an element of a row
    base_.tile_columns =
        std::clamp<int64_t>((target.vector_registers - others) / base_.tile_rows, 1, tuning.attention_vectors) *
        base_.lanes;
    const int64_t padded = (base_.columns + base_.lanes - 1) / base_.lanes * base_.lanes;
    fits_ = target.fma && base_.lanes > 1 && base_.depth % base_.lanes == 0 && base_.columns % kScoreLanes == 0 &&
            2 * padded * (base_.depth + base_.kept_rows) <= tuning.stack_elements &&
            (!base_.causal || chain.hidden == kHiddenScore) && keeps_orders() && join_batch();
    for (const AttentionPlace* p : places())
      fits_ = fits_ && p->strides[kDepth] == 1 && (p->strides[kQuery] == 0 || p->strides[kKey] == 0);
    const int64_t heads = base_.batch * base_.heads, work = base_.rows * base_.columns * base_.depth;
    if (heads > 1 && heads * work >= tuning.parallel_work) {
      const int64_t least = (tuning.chunk_work + work - 1) / work;
      base_.chunk = std::max(least, (heads + tuning.most_chunks - 1) / tuning.most_chunks);
    }
  }
  bool fits() const { return fits_; }

  AttentionKernels kernels() {
    Attention a = base_;
    a.part = Attention::Part::forward;
    a.writes = {rows(chain_.out)}, a.reads = given();
    if (chain_.has_gradient) base_.totals = a.totals = add_numbers("most"), base_.sums = a.sums = add_numbers("sums");
    AttentionKernels out{kernel(std::move(a), chain_.out, 0, chain_.forward + 1)};
    if (!chain_.has_gradient) return out;
    Attention back = base_;
    back.part = Attention::Part::gradient;
    back.writes = {rows(chain_.d_query), rows(chain_.d_key), rows(chain_.d_value)}, back.reads = given();
    back.reads.push_back(rows(chain_.d_out));
    out.backward.push_back(kernel(std::move(back), chain_.d_query, chain_.forward + 1, module_.kernels.size()));
    return out;
  }

 private:
  // Are all numbers f32, products chains of fused multiply-adds, and other sums of lanes?
  bool keeps_orders() const {
    return std::all_of(chain_.kernels.begin(), chain_.kernels.end(), [&](size_t k) {
      const Kernel& kernel = module_.kernels[k];
      const bool sums = std::count(chain_.sums.begin(), chain_.sums.end(), k) > 0;
      bool kept = true, lanes = false;
      for_each_of<For>(statements(kernel), [&](const For& f) {
        kept = kept && f.blocks.empty() && (f.lanes == 0 || f.lanes == kScoreLanes);
        lanes = lanes || f.lanes > 0;
      });
      for_each_of<Define>(statements(kernel),
                          [&](const Define& d) { kept = kept && !std::holds_alternative<Cast>(d.value); });
      for_each_access(kernel,
                      [&](const Access& a) { kept = kept && module_.buffers[size_t(a.buffer)].dtype == DType::f32; });
      return kept && (!sums || lanes);
    });
  }

  bool fits_ = false;
};

}  // namespace

Module cpu_attention(const Module& module, const Target& target) {
  return with_attention(module, [&](Module& out, const AttentionChain& chain) -> std::optional<AttentionKernels> {
    CpuMaker maker(out, chain, target);
    return maker.fits() ? std::optional(maker.kernels()) : std::nullopt;
  });
}

}  // namespace caravan::schedule
