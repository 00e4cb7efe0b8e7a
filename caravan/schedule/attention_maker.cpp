#include "caravan/schedule/attention_maker.h"

#include <algorithm>
#include <limits>
#include <map>

#include "caravan/base/list_text.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

AttentionMaker::AttentionMaker(Module& module, const AttentionChain& chain) : module_(module), chain_(chain) {
  base_.rows = chain.extents[kQuery], base_.columns = chain.extents[kKey], base_.depth = chain.extents[kDepth];
  base_.scale = chain.scale, base_.divisor = chain.divisor, base_.causal = chain.causal;
}

std::vector<const AttentionPlace*> AttentionMaker::places() const {
  std::vector<const AttentionPlace*> out = {&chain_.query, &chain_.key, &chain_.value, &chain_.out};
  if (chain_.has_gradient) out.insert(out.end(), {&chain_.d_out, &chain_.d_query, &chain_.d_key, &chain_.d_value});
  return out;
}

bool AttentionMaker::join_batch() {
  for (size_t axis = kFirstBatch; axis < chain_.extents.size(); ++axis) batch_.push_back({axis, chain_.extents[axis]});
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

Attention::Rows AttentionMaker::rows(const AttentionPlace& p) const {
  Rows out{p.buffer, p.offset, 0, 0, p.strides[kQuery] + p.strides[kKey], p.adds_zero};
  if (!batch_.empty()) out.head = p.strides[batch_.back().axis];
  if (batch_.size() == 2) out.batch = p.strides[batch_[0].axis];
  return out;
}

std::vector<Attention::Rows> AttentionMaker::given() const {
  return {rows(chain_.query), rows(chain_.key), rows(chain_.value)};
}

BufferId AttentionMaker::add_numbers(const std::string& what) {
  return add_buffer(what, {base_.batch, base_.heads, base_.rows});
}
BufferId AttentionMaker::add_buffer(const std::string& what, const std::vector<int64_t>& sizes) {
  ir::Buffer made = module_.buffers[size_t(chain_.out.buffer)];
  made.name += " " + what;
  auto taken = [&](const ir::Buffer& b) { return b.name == made.name; };
  while (std::any_of(module_.buffers.begin(), module_.buffers.end(), taken)) made.name += "'";
  std::string shape;
  for (const int64_t size : sizes) add_to_list(shape, std::to_string(size), ",");
  made.shape = parse_shape(shape);
  made.dtype = DType::f32, made.kind = ir::Computed{};
  module_.buffers.push_back(std::move(made));
  return BufferId(module_.buffers.size() - 1);
}

Kernel AttentionMaker::kernel(Attention a, const AttentionPlace& result, size_t begin, size_t end) const {
  Kernel out;
  out.name = module_.buffers[size_t(result.buffer)].name;
  for (const size_t k : chain_.kernels) {
    if (k < begin || k >= end) continue;
    const Kernel& part = module_.kernels[k];
    out.comments.insert(out.comments.end(), part.comments.begin(), part.comments.end());
    out.origins.insert(out.origins.end(), part.origins.begin(), part.origins.end());
    out.after.insert(out.after.end(), part.after.begin(), part.after.end());
  }
  out.body = std::move(a);
  return out;
}

Module with_attention(const Module& module,
                      const std::function<std::optional<AttentionKernels>(Module&, const AttentionChain&)>& make) {
  Module out = module;
  std::map<size_t, std::vector<Kernel>> made;  // by the kernel that they stand before
  std::set<size_t> replaced;
  for (const AttentionChain& chain : attention_chains(module)) {
    auto kernels = make(out, chain);
    if (!kernels) continue;
    made[chain.forward].push_back(std::move(kernels->forward));
    for (Kernel& kernel : kernels->backward) made[chain.backward].push_back(std::move(kernel));
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
