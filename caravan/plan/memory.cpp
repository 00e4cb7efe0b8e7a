#include "caravan/plan/memory.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

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

// The buffers to be placed: which of them are live when. Offsets are found in several ways, and the best is taken.
class Arena {
 public:
  Arena(MemoryPlan& plan, int64_t alignment) : placements_(plan.placements) {
    for (const Placement& p : placements_) sizes_.push_back((p.bytes + alignment - 1) / alignment * alignment);
    std::map<int, int64_t> changes;  // of the live bytes, by kernel
    for (size_t k = 0; k < placements_.size(); ++k)
      changes[placements_[k].first] += sizes_[k], changes[placements_[k].last + 1] -= sizes_[k];
    int64_t live = 0;
    for (const auto& [kernel, change] : changes)
      if ((live += change) > plan.live) plan.live = live, peak_ = kernel;
  }

  // In the order of first use: a buffer takes the lowest gap that is large enough, and returns it after its last use.
  int64_t place_by_time() {
    Gaps gaps;
    std::multimap<int, size_t> living;  // by last use
    for (size_t k = 0; k < placements_.size(); ++k) {
      while (!living.empty() && living.begin()->first < placements_[k].first) {
        const size_t dead = living.begin()->second;
        gaps.give_back(placements_[dead].offset, sizes_[dead]);
        living.erase(living.begin());
      }
      placements_[k].offset = gaps.take(sizes_[k]);
      living.emplace(placements_[k].last, k);
    }
    return gaps.end();
  }

  // The largest first.
  int64_t place_by_size() {
    return place_all([&](size_t a, size_t b) { return sizes_[a] > sizes_[b]; });
  }
  // From the kernel in which most is live to those farther away, and the longest lifetime first.
  int64_t place_around_peak() {
    auto distance = [&](const Placement& p) { return std::max({p.first - peak_, peak_ - p.last, 0}); };
    return place_all([&](size_t a, size_t b) {
      const Placement &p = placements_[a], &q = placements_[b];
      return std::pair(distance(p), p.first - p.last) < std::pair(distance(q), q.first - q.last);
    });
  }

 private:
  // In this order, each in the smallest gap between those that are already placed and live at the same time.
  template <class Before>
  int64_t place_all(const Before& before) {
    std::vector<size_t> order(placements_.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(), before);
    std::vector<size_t> placed;  // in ascending order of offsets
    int64_t end = 0;
    for (const size_t k : order) {
      Placement& p = placements_[k];
      int64_t free = 0, smallest = std::numeric_limits<int64_t>::max();  // free: where the current gap begins
      p.offset = -1;
      for (const size_t other : placed) {
        const Placement& q = placements_[other];
        if (q.last < p.first || p.last < q.first) continue;
        if (const int64_t gap = q.offset - free; gap >= sizes_[k] && gap < smallest) smallest = gap, p.offset = free;
        free = std::max(free, q.offset + sizes_[other]);
      }
      if (p.offset < 0) p.offset = free;
      auto later = [&](int64_t offset, size_t other) { return offset < placements_[other].offset; };
      placed.insert(std::upper_bound(placed.begin(), placed.end(), p.offset, later), k);
      end = std::max(end, p.offset + sizes_[k]);
    }
    return end;
  }

  std::vector<Placement>& placements_;
  std::vector<int64_t> sizes_;  // by placement, rounded up to the alignment
  int peak_ = 0;                // a kernel in which most bytes are live
};

// Of more buffers than this, only the placement in the order of first use is tried: the time of the others grows with
// the square of their number. A step of a transformer of 12 layers has about 1000.
constexpr size_t kMostSorted = 4000;

}  // namespace

MemoryPlan plan_memory(const loop::Module& module, const Target& target,
                       const std::function<bool(const ir::Buffer&)>& is_placed) {
  const int end = int(module.kernels.size());
  // Kernels of one stage run at the same time: what one of them uses is used by all of them.
  std::vector<int> first(size_t(end), 0), last(size_t(end), 0);
  for (int k = 0; k < end; ++k) {
    const int stage = module.kernels[size_t(k)].grid.stage;
    const bool joins = k > 0 && stage >= 0 && stage == module.kernels[size_t(k) - 1].grid.stage;
    first[size_t(k)] = joins ? first[size_t(k) - 1] : k;
    for (int j = first[size_t(k)]; j <= k; ++j) last[size_t(j)] = k;
  }
  std::vector<int> at(module.buffers.size(), -1);  // by buffer: its index in `placements`, or -1
  MemoryPlan plan;
  for (int k = 0; k < end; ++k)
    loop::for_each_access(module.kernels[size_t(k)], [&](const loop::Access& a) {
      const ir::Buffer& b = module.buffers[size_t(a.buffer)];
      if (!std::holds_alternative<ir::Computed>(b.kind) || !is_placed(b)) return;
      int& placement = at[size_t(a.buffer)];
      if (placement < 0)
        placement = int(plan.placements.size()),
        plan.placements.push_back({a.buffer, 0, b.shape.elements() * bytes(b.dtype), first[size_t(k)], 0});
      plan.placements[size_t(placement)].last = last[size_t(k)];
    });
  auto keep = [&](ir::BufferId id) {
    if (at[size_t(id)] >= 0) plan.placements[size_t(at[size_t(id)])].last = end;
  };
  for (ir::BufferId id : module.observed) keep(id);

  Arena arena(plan, target.tuning.alignment);
  plan.bytes = arena.place_by_time();
  std::vector<Placement> best = plan.placements;
  for (int64_t (Arena::*place)() : {&Arena::place_by_size, &Arena::place_around_peak}) {
    if (plan.bytes == plan.live || best.size() > kMostSorted) break;
    if (const int64_t bytes = (arena.*place)(); bytes < plan.bytes) plan.bytes = bytes, best = plan.placements;
  }
  plan.placements = std::move(best);
  return plan;
}
MemoryPlan plan_memory(const loop::Module& module, const Target& target) {
  return plan_memory(module, target, [](const ir::Buffer&) { return true; });
}

}  // namespace caravan::plan
