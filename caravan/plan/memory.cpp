#include "caravan/plan/memory.h"

#include <map>

#include "caravan/loop/walk.h"

namespace caravan::plan {

namespace {

// The free gaps between placed buffers. Everything from `end_` on is free too.
class Gaps {
 public:
  // Takes the gap with the lowest offset that has `size` bytes.
  int64_t take(int64_t size) {
    for (auto at = gaps_.begin(); at != gaps_.end(); ++at) {
      if (at->second < size) continue;
      const int64_t offset = at->first, rest = at->second - size;
      gaps_.erase(at);
      if (rest > 0) gaps_[offset + size] = rest;
      return offset;
    }
    // No gap is large enough. If the last gap ends at `end_`, it is extended.
    int64_t offset = end_;
    if (auto last = gaps_.empty() ? gaps_.end() : std::prev(gaps_.end());
        last != gaps_.end() && last->first + last->second == end_)
      offset = last->first, gaps_.erase(last);
    end_ = offset + size;
    return offset;
  }
  void give_back(int64_t offset, int64_t size) {
    if (size == 0) return;
    auto next = gaps_.lower_bound(offset);
    if (next != gaps_.end() && offset + size == next->first) size += next->second, next = gaps_.erase(next);
    if (next != gaps_.begin())
      if (auto previous = std::prev(next); previous->first + previous->second == offset) {
        previous->second += size;
        return;
      }
    gaps_[offset] = size;
  }
  int64_t end() const { return end_; }

 private:
  std::map<int64_t, int64_t> gaps_;  // offset -> size
  int64_t end_ = 0;
};

}  // namespace

// First fit, in the order of first use: a buffer takes the lowest gap that is large enough, and returns it after its
// last use.
MemoryPlan plan_memory(const loop::Module& module, const Target& target,
                       const std::function<bool(const ir::Buffer&)>& is_placed) {
  const int end = int(module.kernels.size());
  std::vector<int> at(module.buffers.size(), -1);  // by buffer: its index in `placements`, or -1
  MemoryPlan plan;
  for (int k = 0; k < end; ++k)
    loop::for_each_access(module.kernels[size_t(k)], [&](const loop::Access& a) {
      const ir::Buffer& b = module.buffers[size_t(a.buffer)];
      if (!std::holds_alternative<ir::Computed>(b.kind) || !is_placed(b)) return;
      int& placement = at[size_t(a.buffer)];
      if (placement < 0)
        placement = int(plan.placements.size()),
        plan.placements.push_back({a.buffer, 0, b.shape.elements() * bytes(b.dtype), k, k});
      plan.placements[size_t(placement)].last = k;
    });
  auto keep = [&](ir::BufferId id) {
    if (at[size_t(id)] >= 0) plan.placements[size_t(at[size_t(id)])].last = end;
  };
  for (ir::BufferId id : module.observed) keep(id);

  auto padded = [&](const Placement& place) {
    const int64_t alignment = target.tuning.alignment;
    return (place.bytes + alignment - 1) / alignment * alignment;
  };
  Gaps gaps;
  std::multimap<int, const Placement*> living;  // by last use
  for (Placement& place : plan.placements) {    // in the order of first use
    while (!living.empty() && living.begin()->first < place.first) {
      gaps.give_back(living.begin()->second->offset, padded(*living.begin()->second));
      living.erase(living.begin());
    }
    place.offset = gaps.take(padded(place));
    living.emplace(place.last, &place);
  }
  plan.bytes = gaps.end();
  return plan;
}
MemoryPlan plan_memory(const loop::Module& module, const Target& target) {
  return plan_memory(module, target, [](const ir::Buffer&) { return true; });
}

}  // namespace caravan::plan
