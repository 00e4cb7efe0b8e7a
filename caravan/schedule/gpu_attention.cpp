#include "caravan/schedule/gpu_attention.h"

#include <optional>

#include "caravan/schedule/attention_maker.h"
#include "caravan/target/prelude_sizes.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

using namespace prelude_sizes;

class GpuMaker : AttentionMaker {
 public:
  GpuMaker(Module& module, const AttentionChain& chain, const Target& target)
      : AttentionMaker(module, chain), gpu_(target.gpu) {
    const DType dtype = module.buffers[size_t(chain.query.buffer)].dtype;
    element_ = bytes(dtype);
    base_.tf32 = gpu_.tf32 && dtype == DType::f32;
    fits_ = wide(dtype) == DType::f32 && gpu_.compute >= gpu_.all_precisions && base_.rows >= kTerms &&
            base_.columns >= kTerms && base_.depth <= kMostDepth && base_.depth * element_ % kCopied == 0;
    for (const AttentionPlace* p : places()) fits_ = fits_ && module.buffers[size_t(p->buffer)].dtype == dtype;
    fits_ = fits_ && join_batch() && choose_tile();
    if (dtype == DType::f32 && !base_.tf32)  // without tensor cores
      fits_ = fits_ && base_.batch * base_.heads * base_.rows * base_.columns * bytes(dtype) > gpu_.stored_scores;
    for (const AttentionPlace* p : places()) fits_ = fits_ && aligned(*p);
  }
  bool fits() const { return fits_; }

  Kernel forward() {
    Attention a = base_;
    a.part = Attention::Part::forward;
    a.writes = {rows(chain_.out)}, a.reads = given();
    if (chain_.has_gradient) a.totals = totals_ = add_numbers("totals");
    return for_gpu(kernel(std::move(a), chain_.out, 0, chain_.forward + 1));
  }
  std::vector<Kernel> backward() {
    Attention of_rows = base_, of_columns = base_;
    of_rows.part = Attention::Part::rows, of_columns.part = Attention::Part::columns;
    of_rows.writes = {rows(chain_.d_query)}, of_columns.writes = {rows(chain_.d_key), rows(chain_.d_value)};
    of_rows.reads = of_columns.reads = given();
    of_rows.reads.push_back(rows(chain_.out));
    for (Attention* a : {&of_rows, &of_columns}) a->reads.push_back(rows(chain_.d_out)), a->totals = totals_;
    of_rows.dots = of_columns.dots = add_numbers("dots");
    const size_t begin = chain_.forward + 1, end = module_.kernels.size();
    return {for_gpu(kernel(std::move(of_rows), chain_.d_query, begin, end)),
            for_gpu(kernel(std::move(of_columns), chain_.d_value, begin, end))};
  }

 private:
  Kernel for_gpu(Kernel kernel) const {
    kernel.grid = {int(kAttentionThreads), false, int(kAttentionThreads)};
    kernel.grid.shared_bytes = shared_bytes_;
    const Attention& a = std::get<Attention>(kernel.body);
    const bool forward = a.part == Attention::Part::forward, columns = a.part == Attention::Part::columns;
    if (element_ < bytes(DType::f32) && base_.depth <= gpu_.short_depth)
      kernel.grid.resident =
          forward || (multiplies_together() && !columns) ? gpu_.attention_blocks : gpu_.attention_gradient_blocks;
    if (multiplies_together()) {
      // For a gradient, a third tile has the rows of the block itself.
      const int64_t tile = 2 * base_.tile_columns * (base_.padded * element_ + bytes(DType::f32)),
                    aligned = (tile + kTileAlignment - 1) / kTileAlignment * kTileAlignment;
      kernel.grid.shared_bytes = (forward ? 2 : 3) * aligned;
    }
    return kernel;
  }
  bool multiplies_together() const {
    return gpu_.compute == gpu_.together && element_ == bytes(DType::bf16) && base_.padded == kTogether &&
           base_.tile_columns == kTogether;
  }
  // As many columns in shared memory as fit: two tiles of two tensors with a gap after each row, and two numbers.
  bool choose_tile() {
    const int64_t gap = element_ == bytes(DType::f32) && !base_.tf32 ? kPlainGap : kGap;
    base_.tile_rows = kAttentionRows, base_.padded = (base_.depth + kTerms - 1) / kTerms * kTerms;
    for (const int64_t columns : kAttentionColumns) {
      base_.tile_columns = columns;
      shared_bytes_ = 2 * columns * (2 * (base_.padded + gap) * element_ + 2 * bytes(DType::f32));
      if (shared_bytes_ <= gpu_.sure_shared_bytes) return true;
    }
    return false;
  }
  bool aligned(const AttentionPlace& p) const {
    const Rows r = rows(p);
    auto multiple = [&](int64_t elements) { return elements >= 0 && elements * element_ % kCopied == 0; };
    return p.strides[kDepth] == 1 && multiple(r.offset) && multiple(r.batch) && multiple(r.head) && multiple(r.row) &&
           r.row > 0 && (p.strides[kQuery] == 0 || p.strides[kKey] == 0);
  }

  const Gpu& gpu_;
  int64_t element_ = 0;       // bytes
  int64_t shared_bytes_ = 0;  // of a block, for the tile that was chosen
  bool fits_ = false;
  BufferId totals_ = -1;
};

}  // namespace

Module gpu_attention(const Module& module, const Target& target) {
  return with_attention(module, [&](Module& out, const AttentionChain& chain) -> std::optional<AttentionKernels> {
    GpuMaker maker(out, chain, target);
    if (!maker.fits()) return std::nullopt;
    AttentionKernels made{maker.forward()};
    if (chain.has_gradient) made.backward = maker.backward();
    return made;
  });
}

}  // namespace caravan::schedule
