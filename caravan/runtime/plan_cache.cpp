#include "caravan/runtime/plan_cache.h"

namespace caravan {

namespace {

std::vector<std::shared_ptr<const Node>> tensors_of(const Program& program) {
  std::vector<std::shared_ptr<const Node>> out;
  for (const Program::Assignment& a : program.assignments())
    out.push_back(a.state.handle()), out.push_back(a.value.handle());
  out.push_back(nullptr);
  for (const Tensor& t : program.observed()) out.push_back(t.handle());
  return out;
}

}  // namespace

std::shared_ptr<const plan::Plan> PlanCache::find(const Program& program, const KnownShapes& shapes) {
  const auto tensors = tensors_of(program);
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.tensors.size() != tensors.size() || entry.shapes != shapes) continue;
    bool same = true;
    for (size_t i = 0; same && i < tensors.size(); ++i) same = entry.tensors[i].lock() == tensors[i];
    if (same)
      if (auto plan = entry.plan.lock()) return plan;
  }
  return nullptr;
}

void PlanCache::keep(const Program& program, const KnownShapes& shapes, const std::shared_ptr<const plan::Plan>& plan) {
  const auto tensors = tensors_of(program);
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const Entry& entry) { return entry.plan.expired(); });
  entries_.push_back({{tensors.begin(), tensors.end()}, shapes, plan});
}

}  // namespace caravan
