#include "caravan/schedule/cpu_attention.h"

#include <algorithm>
#include <map>
#include <optional>

#include "caravan/loop/walk.h"
#include "caravan/schedule/attention_maker.h"
#include "caravan/schedule/formula.h"
#include "caravan/target/prelude_sizes.h"

namespace caravan::schedule {

using namespace loop;

namespace {

using namespace prelude_sizes;

int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

class CpuMaker : AttentionMaker {
 public:
  CpuMaker(Module& module, const AttentionChain& chain, const Target& target) : AttentionMaker(module, chain) {
    const Tuning& tuning = target.tuning;
    most_on_stack_ = tuning.stack_elements;
    base_.lanes = target.most_lanes(DType::f32);
    base_.tile_rows = tuning.attention_rows;
    const int64_t others = 2;  // registers: of a vector of columns and of an element of a row
    base_.tile_columns =
        std::clamp<int64_t>((target.vector_registers - others) / base_.tile_rows, 1, tuning.attention_vectors) *
        base_.lanes;
    const int64_t fit = tuning.attention_elements / (2 * score_row()) / base_.tile_rows * base_.tile_rows;
    base_.kept_rows = std::clamp(fit, base_.tile_rows, tuning.attention_kept);
    fits_ = target.fma && base_.lanes > 1 && base_.depth % base_.lanes == 0 &&
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
    add_room(a);
    AttentionKernels out{kernel(std::move(a), chain_.out, 0, chain_.forward + 1)};
    if (!chain_.has_gradient) return out;
    Attention back = base_;
    back.part = Attention::Part::gradient;
    back.writes = {rows(chain_.d_query), rows(chain_.d_key), rows(chain_.d_value)}, back.reads = given();
    back.reads.push_back(rows(chain_.d_out));
    add_room(back);
    out.backward.push_back(kernel(std::move(back), chain_.d_query, chain_.forward + 1, module_.kernels.size()));
    return out;
  }

 private:
  // Are all numbers f32, and have all sums an order that the function of the prelude knows? Notes their blocks.
  bool keeps_orders() {
    std::map<int, Attention::Order> products;  // by the axis over which they add
    std::optional<Attention::Order> sums;
    return std::all_of(chain_.kernels.begin(), chain_.kernels.end(), [&](size_t k) {
      const Kernel& kernel = module_.kernels[k];
      bool kept = true, ordered = false;
      int64_t lanes = 0;
      Attention::Order order;
      for_each_of<For>(statements(kernel), [&](const For& f) {
        if (f.lanes > 0) lanes = f.lanes;
        if (f.blocks.empty()) return;
        kept = kept && !ordered && f.blocks.size() <= 2, ordered = true;
        order = {f.blocks[0], f.blocks.size() > 1 ? f.blocks[1] : 0};
      });
      for_each_of<Define>(statements(kernel),
                          [&](const Define& d) { kept = kept && !std::holds_alternative<Cast>(d.value); });
      for_each_access(kernel,
                      [&](const Access& a) { kept = kept && module_.buffers[size_t(a.buffer)].dtype == DType::f32; });
      if (!kept) return false;
      if (const auto product = chain_.products.find(k); product != chain_.products.end()) {
        const int axis = product->second;
        if (axis == kQuery) base_.over_rows = order;
        if (axis == kKey) base_.over_columns = order;
        return lanes == 0 && !(axis == kDepth && ordered) && products.emplace(axis, order).first->second == order;
      }
      if (std::count(chain_.sums.begin(), chain_.sums.end(), k) > 0) {
        if (!sums) sums = base_.over_scores = order;
        return lanes == kScoreLanes && order == *sums && order.slice == 0;
      }
      return !ordered;  // a maximum of the same numbers is the same in any order, but for the sign of 0
    });
  }

  // The sizes of what the function of the prelude puts into `room`.
  int64_t score_row() const { return rounded_up(base_.columns, 16) | 16; }  // CARAVAN_ROW
  void add_room(Attention& a) {
    const bool forward = a.part == Attention::Part::forward;
    const int64_t panels = rounded_up(a.columns, a.tile_columns) * a.depth, scores = a.kept_rows * score_row();
    a.room = (forward ? 1 : 2) * (panels + scores) + (forward ? 0 : score_row());
    if (a.over_columns.slice > 0) a.room += a.kept_rows * a.depth;
    if (!forward && a.over_rows.block > 0) a.room += (a.over_rows.slice > 0 ? 4 : 2) * a.columns * a.depth;
    a.room = rounded_up(a.room, 16);
    if (a.room > most_on_stack_) a.rooms = add_buffer("room", {chunks(a), a.room});
  }

  int64_t most_on_stack_ = 0;
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
