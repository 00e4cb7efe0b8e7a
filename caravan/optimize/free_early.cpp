#include "caravan/optimize/free_early.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "caravan/optimize/reads.h"

namespace caravan::optimize {

using ir::BufferId;

namespace {

// A list schedule from the first accumulation to the last, which counts the live bytes. Normally the first in the given
// order is next. But if an accumulation that is ready, together with some that it makes ready, frees more than it
// allocates, then these are next.
class MemoryOrder {
 public:
  explicit MemoryOrder(const ir::Program& program)
      : program_(program),
        n_(program.accumulations.size()),
        reads_(n_),
        users_(n_),
        missing_(n_, 0),
        done_(n_, false),
        bytes_(program.buffers.size(), 0),
        made_(program.buffers.size(), 0),
        left_(program.buffers.size(), 0),
        readers_(program.buffers.size()) {
    std::vector<std::vector<size_t>> makers(program.buffers.size());
    for (size_t k = 0; k < n_; ++k) makers[size_t(program.accumulations[k].target)].push_back(k);
    for (size_t b = 0; b < makers.size(); ++b) {
      const ir::Buffer& buffer = program.buffers[b];
      if (!makers[b].empty()) bytes_[b] = buffer.shape.elements() * bytes(buffer.dtype);
    }
    for (BufferId id : program.observed) ++left_[size_t(id)];  // never free
    std::vector<int> update(program.buffers.size(), -1);       // by state: the accumulation of its new value
    for (const auto& a : program.assignments) {
      bytes_[size_t(a.value)] = 0;  // stored to the state itself, as a rule
      if (makers[size_t(a.value)].size() == 1) update[size_t(a.state)] = int(makers[size_t(a.value)][0]);
    }
    for (size_t k = 0; k < n_; ++k) {
      for_each_read(program, program.accumulations[k], [&](BufferId id) { reads_[k].push_back(id); });
      std::sort(reads_[k].begin(), reads_[k].end());
      reads_[k].erase(std::unique(reads_[k].begin(), reads_[k].end()), reads_[k].end());
      for (BufferId id : reads_[k]) {
        ++left_[size_t(id)];
        if (bytes_[size_t(id)] > 0) readers_[size_t(id)].push_back(k);
        for (size_t m : makers[size_t(id)]) users_[m].push_back(k), ++missing_[k];
        if (const int u = update[size_t(id)]; u > int(k)) users_[k].push_back(size_t(u)), ++missing_[size_t(u)];
      }
    }
  }

  // The most bytes that are live at a time if accumulations run in this order.
  int64_t peak(const std::vector<size_t>& order) {
    int64_t live = 0, most = 0;
    for (const size_t k : order) {
      const int64_t change = execute(k), made = made_[target(k)] == 1 ? bytes_[target(k)] : 0;
      most = std::max(most, live + made);  // what it frees is still live while it runs
      live += change;
    }
    for (size_t k = order.size(); k-- > 0;) revert(order[k]);
    return most;
  }

  std::vector<size_t> run() {
    for (size_t next = 0; next < n_; ++next) {
      if (!done_[next]) take({next});
      for (std::vector<size_t> freeing; !(freeing = best_cascade()).empty();) take(freeing);
    }
    return std::move(order_);
  }

 private:
  // An accumulation and those that it makes ready, up to the point at which the fewest bytes are live.
  struct Cascade {
    std::vector<size_t> accumulations{};  // none if the bytes are not fewer than before
    int64_t most = 0;                     // by how much the live bytes grow on the way
  };
  Cascade cascade(size_t first) {
    Cascade out;
    std::vector<size_t> tried;
    std::set<size_t> ready = {first};
    int64_t change = 0, least = 0, most = 0;
    while (!ready.empty() && tried.size() < kLongestCascade) {
      const size_t k = cheapest(ready);
      ready.erase(k);
      const int64_t made = made_[target(k)] == 0 ? bytes_[target(k)] : 0;
      most = std::max(most, change + made);
      change += execute(k);
      tried.push_back(k);
      if (change < least) least = change, out = {tried, most};
      for (size_t user : users_[k])
        if (missing_[user] == 0) ready.insert(user);
    }
    for (size_t k = tried.size(); k-- > 0;) revert(tried[k]);
    return out;
  }
  // The one after which the fewest bytes are live; of equal ones the first.
  size_t cheapest(const std::set<size_t>& ready) {
    size_t out = *ready.begin(), tried = 0;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const size_t k : ready) {
      if (++tried > kMostTried) break;
      const int64_t change = execute(k);
      revert(k);
      if (change < least) least = change, out = k;
    }
    return out;
  }
  // Of those that free memory now, the one that needs the least memory on the way.
  std::vector<size_t> best_cascade() {
    Cascade best;
    size_t tried = 0;
    for (auto at = touched_.begin(); at != touched_.end() && tried < kMostTried;) {
      Cascade found = done_[*at] || missing_[*at] > 0 ? Cascade() : (++tried, cascade(*at));
      at = found.accumulations.empty() ? touched_.erase(at) : std::next(at);
      if (!found.accumulations.empty() && (best.accumulations.empty() || found.most < best.most))
        best = std::move(found);
    }
    return best.accumulations;
  }

  // Puts them next. Whether others free memory may have changed if they read what these read or compute.
  void take(const std::vector<size_t>& next) {
    for (const size_t k : next) {
      execute(k);
      order_.push_back(k);
      touched_.insert(users_[k].begin(), users_[k].end());
      for (const BufferId id : reads_[k])
        if (left_[size_t(id)] <= kFewReaders) touched_.insert(readers_[size_t(id)].begin(), readers_[size_t(id)].end());
    }
  }

  size_t target(size_t k) const { return size_t(program_.accumulations[k].target); }

  // Returns by how much the live bytes grow.
  int64_t execute(size_t k) {
    int64_t change = made_[target(k)]++ == 0 ? bytes_[target(k)] : 0;
    for (const BufferId id : reads_[k])
      if (--left_[size_t(id)] == 0) change -= bytes_[size_t(id)];
    for (size_t user : users_[k]) --missing_[user];
    done_[k] = true;
    return change;
  }
  void revert(size_t k) {
    --made_[target(k)];
    for (const BufferId id : reads_[k]) ++left_[size_t(id)];
    for (size_t user : users_[k]) ++missing_[user];
    done_[k] = false;
  }

  // Both bound the time of the pass, and were not tuned: how many accumulations are tried for one place of the order,
  // and how many readers a buffer may have left if it is to become free soon.
  static constexpr size_t kMostTried = 64;
  static constexpr size_t kFewReaders = 4;

  const ir::Program& program_;
  const size_t n_;
  std::vector<std::vector<BufferId>> reads_;  // by accumulation, without duplicates
  std::vector<std::vector<size_t>> users_;    // by accumulation: those that must come after it
  std::vector<size_t> missing_;               // by accumulation: how many must still come before it
  std::vector<bool> done_;
  std::vector<int64_t> bytes_;                // by buffer; 0 if it is not computed
  std::vector<size_t> made_;                  // by buffer: how many accumulations have written to it
  std::vector<size_t> left_;                  // by buffer: accumulations that still have to read it
  std::vector<std::vector<size_t>> readers_;  // by buffer that is computed
  std::set<size_t> touched_;                  // accumulations that may free memory now
  std::vector<size_t> order_;
};

}  // namespace

ir::Program free_early(const ir::Program& program, const Target& target) {
  std::vector<size_t> given(program.accumulations.size());
  std::iota(given.begin(), given.end(), size_t(0));
  MemoryOrder memory(program);
  const int64_t peak = memory.peak(given);
  if (peak < (target.kind == Target::Kind::cuda ? target.gpu.least_ordered : target.tuning.least_ordered))
    return program;
  const std::vector<size_t> order = memory.run();
  if (MemoryOrder(program).peak(order) >= peak) return program;
  ir::Program out = program;
  out.accumulations.clear();
  for (const size_t k : order) out.accumulations.push_back(program.accumulations[k]);
  return out;
}

}  // namespace caravan::optimize
