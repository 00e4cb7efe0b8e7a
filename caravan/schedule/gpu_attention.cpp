#include "caravan/schedule/gpu_attention.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "caravan/schedule/attention_chain.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

constexpr int64_t kTile = 16;               // rows, and elements of a row, that tensor cores take at a time
constexpr int64_t kMostDepth = 128;         // so that a row of sums fits into registers
constexpr int64_t kCopied = 16;             // bytes that are copied to shared memory at a time
constexpr int64_t kMostShared = 48 * 1024;  // bytes of shared memory that every GPU gives a block
constexpr int kTensorCores = 80;            // compute capability from which on they have all precisions

class Maker {
 public:
  Maker(Module& module, const AttentionChain& chain, const Target& target) : module_(module), chain_(chain) {
    const DType dtype = module.buffers[size_t(chain.query.buffer)].dtype;
    element_ = bytes(dtype);
    base_.rows = chain.extents[kQuery], base_.columns = chain.extents[kKey], base_.depth = chain.extents[kDepth];
    base_.scale = chain.scale, base_.causal = chain.causal;
    base_.tf32 = target.gpu.tf32 && dtype == DType::f32;
    fits_ = wide(dtype) == DType::f32 && target.gpu.compute >= kTensorCores && base_.rows >= kTile &&
            base_.columns >= kTile && base_.depth <= kMostDepth && base_.depth * element_ % kCopied == 0;
    for (const AttentionPlace* p : places()) fits_ = fits_ && module.buffers[size_t(p->buffer)].dtype == dtype;
    fits_ = fits_ && join_batch() && choose_tile();
    if (dtype == DType::f32 && !base_.tf32)  // without tensor cores
      fits_ = fits_ && base_.batch * base_.heads * base_.rows * base_.columns * bytes(dtype) > target.gpu.stored_scores;
    for (const AttentionPlace* p : places()) fits_ = fits_ && aligned(*p);
  }
  bool fits() const { return fits_; }

  Kernel forward() {
    Attention a = base_;
    a.part = Attention::Part::forward;
    a.writes = {rows(chain_.out)}, a.reads = given();
    if (chain_.has_gradient) a.totals = totals_ = add_numbers("totals");
    return kernel(std::move(a), chain_.out, [&](size_t k) { return k <= chain_.forward; });
  }
  std::vector<Kernel> backward() {
    Attention of_rows = base_, of_columns = base_;
    of_rows.part = Attention::Part::rows, of_columns.part = Attention::Part::columns;
    of_rows.writes = {rows(chain_.d_query)}, of_columns.writes = {rows(chain_.d_key), rows(chain_.d_value)};
    of_rows.reads = of_columns.reads = given();
    of_rows.reads.push_back(rows(chain_.out));
    for (Attention* a : {&of_rows, &of_columns}) a->reads.push_back(rows(chain_.d_out)), a->totals = totals_;
    of_rows.dots = of_columns.dots = add_numbers("dots");
    auto later = [&](size_t k) { return k > chain_.forward; };
    return {kernel(std::move(of_rows), chain_.d_query, later), kernel(std::move(of_columns), chain_.d_value, later)};
  }

 private:
  std::vector<const AttentionPlace*> places() const {
    std::vector<const AttentionPlace*> out = {&chain_.query, &chain_.key, &chain_.value, &chain_.out};
    if (chain_.has_gradient) out.insert(out.end(), {&chain_.d_out, &chain_.d_query, &chain_.d_key, &chain_.d_value});
    return out;
  }
  // Examples and heads are two loops at most. Two axes are one if the outer one goes on where the inner one ends.
  bool join_batch() {
    for (size_t axis = kFirstBatch; axis < chain_.extents.size(); ++axis)
      batch_.push_back({axis, chain_.extents[axis]});
    auto stride = [&](const AttentionPlace& p, const Batch& b) { return p.strides[b.axis]; };
    std::sort(batch_.begin(), batch_.end(),
              [&](const Batch& a, const Batch& b) { return stride(chain_.out, a) > stride(chain_.out, b); });
    for (size_t k = 0; k + 1 < batch_.size();) {
      const Batch &outer = batch_[k], &inner = batch_[k + 1];
      const std::vector<const AttentionPlace*> all = places();
      const bool one = std::all_of(all.begin(), all.end(), [&](const AttentionPlace* p) {
        return stride(*p, outer) == inner.extent * stride(*p, inner);
      });
      if (!one) {
        ++k;
        continue;
      }
      batch_[k + 1].extent *= outer.extent;
      batch_.erase(batch_.begin() + std::ptrdiff_t(k));
    }
    if (batch_.size() > 2) return false;
    if (!batch_.empty()) base_.heads = batch_.back().extent;
    if (batch_.size() == 2) base_.batch = batch_[0].extent;
    return base_.batch * base_.heads * std::max(base_.rows, base_.columns) < std::numeric_limits<int32_t>::max();
  }
  // As many columns in shared memory as fit: two tiles of two tensors with a gap after each row, and two numbers.
  bool choose_tile() {
    const int64_t gap = element_ == 4 && !base_.tf32 ? 4 : 8, padded = (base_.depth + kTile - 1) / kTile * kTile;
    for (const int64_t columns : {64, 32, 16}) {
      base_.tile_columns = columns;
      base_.shared_bytes = 2 * columns * (2 * (padded + gap) * element_ + 2 * bytes(DType::f32));
      if (base_.shared_bytes <= kMostShared) return true;
    }
    return false;
  }
  bool aligned(const AttentionPlace& p) const {
    const Rows r = rows(p);
    auto multiple = [&](int64_t elements) { return elements >= 0 && elements * element_ % kCopied == 0; };
    return p.strides[kDepth] == 1 && multiple(r.offset) && multiple(r.batch) && multiple(r.head) && multiple(r.row) &&
           r.row > 0 && (p.strides[kQuery] == 0 || p.strides[kKey] == 0);
  }
  using Rows = Attention::Rows;
  Rows rows(const AttentionPlace& p) const {
    Rows out{p.buffer, p.offset, 0, 0, p.strides[kQuery] + p.strides[kKey]};
    if (!batch_.empty()) out.head = p.strides[batch_.back().axis];
    if (batch_.size() == 2) out.batch = p.strides[batch_[0].axis];
    return out;
  }
  std::vector<Rows> given() const { return {rows(chain_.query), rows(chain_.key), rows(chain_.value)}; }
  // A buffer with a number for each row.
  BufferId add_numbers(const std::string& what) {
    ir::Buffer made = module_.buffers[size_t(chain_.out.buffer)];
    made.name += " " + what;
    auto taken = [&](const ir::Buffer& b) { return b.name == made.name; };
    while (std::any_of(module_.buffers.begin(), module_.buffers.end(), taken)) made.name += "'";
    made.shape =
        parse_shape(std::to_string(base_.batch) + "," + std::to_string(base_.heads) + "," + std::to_string(base_.rows));
    made.dtype = DType::f32, made.kind = ir::Computed{};
    module_.buffers.push_back(std::move(made));
    return BufferId(module_.buffers.size() - 1);
  }
  template <class Of>
  Kernel kernel(Attention a, const AttentionPlace& result, const Of& is_part) const {
    Kernel out;
    out.name = module_.buffers[size_t(result.buffer)].name;
    for (const size_t k : chain_.kernels) {
      if (!is_part(k)) continue;
      const Kernel& part = module_.kernels[k];
      out.comments.insert(out.comments.end(), part.comments.begin(), part.comments.end());
      out.origins.insert(out.origins.end(), part.origins.begin(), part.origins.end());
      out.after.insert(out.after.end(), part.after.begin(), part.after.end());
    }
    out.body = std::move(a);
    out.grid = {Attention::kThreads, false, Attention::kThreads};
    return out;
  }

  struct Batch {
    size_t axis = 0;
    int64_t extent = 0;
  };
  Module& module_;
  const AttentionChain& chain_;
  int64_t element_ = 0;  // bytes
  Attention base_;
  std::vector<Batch> batch_;
  bool fits_ = false;
  BufferId totals_ = -1;
};

}  // namespace

Module gpu_attention(const Module& module, const Target& target) {
  Module out = module;
  std::map<size_t, std::vector<Kernel>> made;  // by the kernel that they stand before
  std::set<size_t> replaced;
  for (const AttentionChain& chain : attention_chains(module)) {
    Maker maker(out, chain, target);
    if (!maker.fits()) continue;
    made[chain.forward].push_back(maker.forward());
    if (chain.has_gradient)
      for (Kernel& kernel : maker.backward()) made[chain.backward].push_back(std::move(kernel));
    replaced.insert(chain.kernels.begin(), chain.kernels.end());
  }
  out.kernels.clear();
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    for (Kernel& kernel : made[k]) out.kernels.push_back(std::move(kernel));
    if (!replaced.count(k)) out.kernels.push_back(module.kernels[k]);
  }
  return out;
}

}  // namespace caravan::schedule
