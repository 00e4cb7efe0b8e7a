#include "caravan/optimize/delay_updates.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "caravan/base/error.h"
#include "caravan/optimize/reads.h"

namespace caravan::optimize {

using ir::BufferId;

namespace {

// By accumulation: is it a number that is computed from states and data alone, such as a correction of Adam?
std::vector<bool> numbers_of(const ir::Program& program) {
  std::vector<bool> waits(program.buffers.size(), false);  // is it computed, and no such number?
  std::vector<int> makers(program.buffers.size(), 0);
  for (const ir::Accumulation& a : program.accumulations) waits[size_t(a.target)] = true, ++makers[size_t(a.target)];
  for (const ir::Assignment& a : program.assignments) makers[size_t(a.value)] = 0;  // stays behind the readers
  std::vector<bool> out;
  for (const ir::Accumulation& a : program.accumulations) {
    bool number = program.buffers[size_t(a.target)].shape.elements() == 1 && makers[size_t(a.target)] == 1 &&
                  a.after < 0 && !a.collective;
    for_each_read(program, a, [&](BufferId id) { number = number && !waits[size_t(id)]; });
    if (number) waits[size_t(a.target)] = false;
    out.push_back(number);
  }
  return out;
}

// A list schedule that is built from the last accumulation to the first. An accumulation is free once all readers of
// its result are placed. A free one that reads a state's old value is held until the state's update is placed, and so
// comes before it in the final order. If all free ones are held, their waits form a cycle: one of the cycle is
// released.
class Schedule {
 public:
  Schedule(const ir::Program& program, const std::vector<bool>& numbers)
      : program_(program),
        numbers_(numbers),
        n_(program.accumulations.size()),
        users_(n_),
        makers_(n_),
        held_back_(n_),
        unused_(n_, 0),
        awaited_(n_, 0),
        updates_(n_, false),
        placed_(n_, false) {
    std::vector<std::vector<size_t>> makers(program.buffers.size());
    std::vector<int> update(program.buffers.size(), -1);
    for (size_t k = 0; k < n_; ++k) makers[size_t(program.accumulations[k].target)].push_back(k);
    for (const auto& a : program.assignments)  // a value that several accumulations write is copied at the end
      if (const auto& all = makers[size_t(a.value)]; all.size() == 1)
        update[size_t(a.state)] = int(all[0]), updates_[all[0]] = true;
    for (size_t k = 0; k < n_; ++k) {
      std::vector<BufferId> reads;
      for_each_read(program, program.accumulations[k], [&](BufferId id) { reads.push_back(id); });
      std::sort(reads.begin(), reads.end());
      reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
      for (BufferId id : reads) {
        for (size_t m : makers[size_t(id)]) makers_[k].push_back(m), users_[m].push_back(k), ++unused_[m];
        if (int u = update[size_t(id)]; u >= 0 && size_t(u) != k)
          held_back_[size_t(u)].push_back(k), awaits_[k].push_back(size_t(u)), ++awaited_[k];
      }
    }
  }

  std::vector<size_t> run() {
    for (size_t k = 0; k < n_; ++k)
      if (unused_[k] == 0) free(k);
    std::vector<size_t> reversed;
    while (reversed.size() < n_) {
      if (ready_.empty()) release(circle());
      place_next(reversed);
    }
    std::reverse(reversed.begin(), reversed.end());
    return reversed;
  }

 private:
  void place_next(std::vector<size_t>& reversed) {
    // The last in the given order, unless only the one just placed reads another, or the same updates do.
    size_t next = *ready_.rbegin();
    if (!reversed.empty())
      for (size_t m : makers_[reversed.back()]) {
        if (numbers_[m]) continue;
        const bool one = program_.buffers[size_t(program_.accumulations[m].target)].shape.elements() == 1;
        const bool of_updates = !one && std::ranges::all_of(users_[m], [&](size_t user) { return updates_[user]; });
        if (ready_.count(m) && (users_[m].size() == 1 || of_updates)) next = m;
        if (of_updates)
          for (size_t user : users_[m])
            if (ready_.count(user)) next = user;
      }
    place(next);
    reversed.push_back(next);
  }
  void free(size_t k) { (awaited_[k] == 0 ? ready_ : held_).insert(k); }
  void release(size_t k) {
    held_.erase(k);
    awaited_[k] = 0;
    ready_.insert(k);
  }
  void place(size_t k) {
    ready_.erase(k);
    placed_[k] = true;
    for (size_t m : makers_[k])
      if (--unused_[m] == 0) free(m);
    for (size_t reader : held_back_[k])
      if (awaited_[reader] > 0 && --awaited_[reader] == 0 && held_.count(reader)) release(reader);
  }

  // An accumulation of a cycle of waits. Goes from a held one to an update that it awaits, from there along unplaced
  // readers to the next held one, and so on until one repeats.
  size_t circle() const {
    CARAVAN_CHECK(!held_.empty(), "the accumulations of `" + program_.name + "` are not in order");
    std::set<size_t> seen;
    for (size_t k = *held_.rbegin();;) {
      if (!seen.insert(k).second) return k;
      size_t at = *std::find_if(awaits_.at(k).begin(), awaits_.at(k).end(), [&](size_t u) { return !placed_[u]; });
      while (!held_.count(at))
        at = *std::find_if(users_[at].begin(), users_[at].end(), [&](size_t user) { return !placed_[user]; });
      k = at;
    }
  }

  const ir::Program& program_;
  const std::vector<bool>& numbers_;  // these come first in the end
  const size_t n_;
  std::vector<std::vector<size_t>> users_, makers_;  // by accumulation, without duplicates
  std::vector<std::vector<size_t>> held_back_;       // by update: readers of the old value
  std::unordered_map<size_t, std::vector<size_t>> awaits_;
  // By accumulation: how many readers, and how many awaited updates, are not yet placed.
  std::vector<size_t> unused_, awaited_;
  std::vector<bool> updates_, placed_;
  std::set<size_t> ready_, held_;
};

}  // namespace

ir::Program delay_updates(const ir::Program& program) {
  const std::vector<bool> numbers = numbers_of(program);
  std::vector<size_t> order = Schedule(program, numbers).run();
  std::stable_partition(order.begin(), order.end(), [&](size_t k) { return numbers[k]; });
  ir::Program out = program;
  out.accumulations.clear();
  for (size_t k : order) out.accumulations.push_back(program.accumulations[k]);
  return out;
}

}  // namespace caravan::optimize
