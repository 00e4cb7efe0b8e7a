#include "caravan/optimize/rematerialise.h"

#include <algorithm>
#include <map>
#include <set>

#include "caravan/optimize/reads.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::BufferId;
using ir::Program;

namespace {

// When the buffers of a program are live. Time is the number of an accumulation.
struct Lifetimes {
  Lifetimes(const Program& program, const std::vector<int64_t>& bytes)
      : makers(program.buffers.size()),
        uses(program.buffers.size()),
        last(program.buffers.size(), -1),
        live(program.accumulations.size(), 0) {
    const int end = int(program.accumulations.size());
    for (int k = 0; k < end; ++k) {
      const Accumulation& a = program.accumulations[size_t(k)];
      makers[size_t(a.target)].push_back(k);
      auto use = [&](BufferId id) {
        if (auto& all = uses[size_t(id)]; all.empty() || all.back() != k) all.push_back(k);
        last[size_t(id)] = k;
      };
      use(a.target);
      for (const ir::Operand& o : a.operands) {
        use(o.buffer);
        if (auto* random = std::get_if<ir::RandomLeaf>(&program.buffers[size_t(o.buffer)].kind)) use(random->step);
      }
    }
    for (BufferId id : program.observed) last[size_t(id)] = end;
    std::vector<int64_t> change(size_t(end) + 2, 0);
    for (size_t b = 0; b < makers.size(); ++b)
      if (!makers[b].empty()) change[size_t(makers[b][0])] += bytes[b], change[size_t(last[b]) + 1] -= bytes[b];
    int64_t now = 0;
    for (int k = 0; k < end; ++k) live[size_t(k)] = now += change[size_t(k)];
  }
  int peak() const { return int(std::max_element(live.begin(), live.end()) - live.begin()); }
  int64_t most() const { return live.empty() ? 0 : live[size_t(peak())]; }

  std::vector<std::vector<int>> makers;  // by buffer: the accumulations that write it
  std::vector<std::vector<int>> uses;    // by buffer: those that write or read it, in order
  std::vector<int> last;                 // by buffer: the last use; after all accumulations if it is observed
  std::vector<int64_t> live;             // by time: bytes
};

// A value that may be computed again.
struct Repeat {
  BufferId buffer = -1;
  int at = 0;                 // before which accumulation it is needed next
  std::vector<int> again{};   // accumulations to repeat, in order
  std::set<BufferId> made{};  // what they compute
  std::set<BufferId> kept{};  // what they read that would not be live any more, and is kept for them
  double gain = 0;            // bytes saved, times how long, for each operation
};

class Rematerialiser {
 public:
  Rematerialiser(const Program& program, std::vector<int64_t> bytes, const std::vector<Group>& groups)
      : out_(program), bytes_(std::move(bytes)), times_(out_, bytes_) {
    part_of_.assign(out_.buffers.size(), -1), inside_.assign(out_.buffers.size(), false);
    for (const Group& group : groups) {
      const int forward = add_part(group.forward, {group.result});
      parts_[size_t(forward)].result = group.result;
      if (!group.gradients.empty()) parts_[size_t(add_part(group.gradient, group.gradients))].forward = forward;
    }
    is_step_.assign(out_.buffers.size(), false);
    for (const ir::Buffer& buffer : out_.buffers) {
      names_.insert(buffer.name);
      if (auto* random = std::get_if<ir::RandomLeaf>(&buffer.kind)) is_step_[size_t(random->step)] = true;
    }
  }

  Rematerialised run(int64_t limit) {
    // Every step makes what is live at the peak smaller. Steps may take turns at peaks of equal height, but not
    // forever.
    for (size_t steps = 4 * out_.accumulations.size(); steps > 0 && times_.most() > limit; --steps)
      if (!step()) break;
    return {std::move(out_), times_.most()};
  }

 private:
  bool step() {
    const int peak = times_.peak();
    std::vector<Repeat> found;
    std::vector<int> begins(parts_.size(), int(out_.accumulations.size()));  // by part
    for (size_t k = out_.accumulations.size(); k-- > 0;)
      if (const int part = part_at(int(k)); part >= 0) begins[size_t(part)] = int(k);
    std::vector<int> update(out_.buffers.size(), -1);  // by state: when its new value is computed
    for (const auto& a : out_.assignments)
      for (int maker : times_.makers[size_t(a.value)]) update[size_t(a.state)] = maker;
    for (size_t b = 0; b < out_.buffers.size(); ++b) {
      const std::vector<int>& uses = times_.uses[b];
      const auto next = std::lower_bound(uses.begin(), uses.end(), peak);
      if (bytes_[b] == 0 || times_.makers[b].empty() || next == uses.begin() || next == uses.end() || *next == peak ||
          times_.last[b] >= int(out_.accumulations.size()) || is_step_[b] || times_.makers[b].back() > peak)
        continue;
      if (inside_[b] || is_read_by_both(BufferId(b), peak)) continue;
      Repeat repeat{BufferId(b), *next};
      for (auto use = next; use != uses.end(); ++use)
        if (const int part = part_at(*use); part >= 0) repeat.at = std::min(repeat.at, begins[size_t(part)]);
      if (repeat.at <= peak) continue;
      repeat.made.insert(BufferId(b));
      int64_t saved = bytes_[b];
      if (!collect(BufferId(b), update, repeat)) continue;
      for (BufferId id : repeat.kept)
        if (times_.last[size_t(id)] < peak) saved -= size_of(id);
      if (saved <= 0) continue;
      double operations = 1;
      for (int k : repeat.again) operations += operations_of(out_.accumulations[size_t(k)]);
      repeat.gain = double(saved) * double(repeat.at - *std::prev(next)) / operations;
      found.push_back(std::move(repeat));
    }
    std::stable_sort(found.begin(), found.end(), [](const Repeat& a, const Repeat& b) { return a.gain > b.gain; });
    for (const Repeat& repeat : found)
      if (apply(repeat, peak)) return true;
    return false;
  }

  // Adds the accumulations that compute the buffer, after those that compute what they read. False if they cannot be
  // repeated. The depth of the recursion is at most kMostRepeated.
  bool collect(BufferId buffer, const std::vector<int>& update, Repeat& repeat) const {
    for (const int maker : times_.makers[size_t(buffer)]) {
      const Accumulation& a = out_.accumulations[size_t(maker)];
      if (a.collective) return false;  // values are not exchanged again
      for (const ir::Operand& o : a.operands) {
        BufferId id = o.buffer;
        if (auto* random = std::get_if<ir::RandomLeaf>(&out_.buffers[size_t(id)].kind)) id = random->step;
        if (const int updated = update[size_t(id)]; updated >= 0 && updated < repeat.at) return false;
        if (times_.makers[size_t(id)].empty() || repeat.made.count(id)) continue;
        if (inside_[size_t(id)]) {
          if (parts_[size_t(part_of_[size_t(id)])].result < 0) return false;  // a gradient is not computed again
        } else if (times_.last[size_t(id)] >= repeat.at) {
          continue;
        }
        const bool small = kSmall * size_of(id) <= size_of(repeat.buffer);
        if ((small && !inside_[size_t(id)]) || is_step_[size_t(id)]) {
          repeat.kept.insert(id);
          continue;
        }
        repeat.made.insert(id);
        if (repeat.made.size() > kMostRepeated || !collect(id, update, repeat)) return false;
      }
      repeat.again.push_back(maker);
    }
    return repeat.again.size() <= kMostRepeated;
  }

  // Repeats the accumulations before the next use. False, and nothing is changed, if the peak does not become lower.
  bool apply(const Repeat& repeat, int peak) {
    Program program = out_;
    std::vector<int64_t> bytes = bytes_;
    for (BufferId id : repeat.kept) bytes[size_t(id)] = size_of(id);
    std::map<BufferId, BufferId> again;
    std::set<std::string> names = names_;
    for (BufferId id : repeat.made) {
      ir::Buffer buffer = program.buffers[size_t(id)];
      while (!names.insert(buffer.name += ".again").second) {
      }
      again[id] = BufferId(program.buffers.size());
      program.buffers.push_back(std::move(buffer));
      bytes.push_back(bytes[size_t(id)]);
    }
    const int part = part_of_[size_t(repeat.buffer)];
    auto rename = [&](Accumulation& a, bool all) {
      for (ir::Operand& o : a.operands) {
        const bool with_it = part >= 0 && inside_[size_t(o.buffer)] && part_of_[size_t(o.buffer)] == part;
        if (auto to = again.find(o.buffer); to != again.end() && (all || with_it || o.buffer == repeat.buffer))
          o.buffer = to->second;
      }
    };
    std::vector<Accumulation> repeated;
    for (const int k : repeat.again) {
      Accumulation a = program.accumulations[size_t(k)];
      rename(a, true);
      a.target = again.at(a.target);
      a.after = anchor(repeat, peak);
      repeated.push_back(std::move(a));
    }
    for (size_t k = size_t(repeat.at); k < program.accumulations.size(); ++k) rename(program.accumulations[k], false);
    program.accumulations.insert(program.accumulations.begin() + repeat.at, std::make_move_iterator(repeated.begin()),
                                 std::make_move_iterator(repeated.end()));
    Lifetimes times(program, bytes);
    if (times.live[size_t(peak)] >= times_.live[size_t(peak)] || times.most() > times_.most()) return false;
    is_step_.resize(program.buffers.size(), false);
    add_parts(again, repeat.buffer);
    out_ = std::move(program), bytes_ = std::move(bytes), times_ = std::move(times), names_ = std::move(names);
    return true;
  }

  // --- parts ---

  struct Part {
    BufferId result = -1;  // of a forward part; -1: a gradient
    int forward = -1;      // of a gradient: the part whose values it reads
  };
  int add_part(const std::vector<BufferId>& inside, const std::vector<BufferId>& results) {
    const int part = int(parts_.size());
    parts_.emplace_back();
    for (const BufferId id : inside) part_of_[size_t(id)] = part, inside_[size_t(id)] = true;
    for (const BufferId id : results) part_of_[size_t(id)] = part;
    return part;
  }
  // The same parts of the values that are computed again. If `buffer`, the result of a part, is one of them, and not
  // only needed for another, the gradient reads the new part.
  void add_parts(const std::map<BufferId, BufferId>& again, BufferId buffer) {
    part_of_.resize(out_.buffers.size() + again.size(), -1), inside_.resize(part_of_.size(), false);
    std::map<int, int> now;  // by part
    for (const auto& [from, to] : again) {
      const int part = part_of_[size_t(from)];
      if (part < 0 || parts_[size_t(part)].result < 0) continue;
      if (now.emplace(part, int(parts_.size())).second) parts_.emplace_back();
      part_of_[size_t(to)] = now[part], inside_[size_t(to)] = inside_[size_t(from)];
      if (from == parts_[size_t(part)].result) parts_[size_t(now[part])].result = to;
      if (from != buffer || inside_[size_t(from)]) continue;
      for (Part& other : parts_)
        if (other.forward == part) other.forward = now[part];
    }
  }
  int part_at(int accumulation) const { return part_of_[size_t(out_.accumulations[size_t(accumulation)].target)]; }
  // Is the value read before the peak by a part, and after it by the gradient of that part?
  bool is_read_by_both(BufferId buffer, int peak) const {
    const std::vector<int>& uses = times_.uses[size_t(buffer)];
    return std::any_of(uses.begin(), uses.end(), [&](int late) {
      const int part = late > peak ? part_at(late) : -1;
      const int forward = part >= 0 ? parts_[size_t(part)].forward : -1;
      return forward >= 0 && std::any_of(uses.begin(), uses.end(),
                                         [&](int early) { return early <= peak && part_at(early) == forward; });
    });
  }

  // What the repeated accumulations must come after, so that fusion does not move them to the first ones: of what their
  // reader reads, the value that is computed last.
  BufferId anchor(const Repeat& repeat, int peak) const {
    int latest = -1;
    for (const ir::Operand& o : out_.accumulations[size_t(repeat.at)].operands)
      if (const auto& makers = times_.makers[size_t(o.buffer)]; !makers.empty() && o.buffer != repeat.buffer)
        latest = std::max(latest, makers.back());
    for (int k = repeat.at - 1; latest < peak && k >= peak; --k)  // or else what is computed directly before it
      if (times_.makers[size_t(out_.accumulations[size_t(k)].target)].back() < repeat.at) latest = k;
    return latest < 0 ? -1 : out_.accumulations[size_t(latest)].target;
  }

  int64_t size_of(BufferId id) const {
    const ir::Buffer& b = out_.buffers[size_t(id)];
    return b.shape.elements() * bytes(b.dtype);
  }
  static double operations_of(const Accumulation& a) {
    double out = double(a.body.entries().size());
    for (const int64_t extent : a.extents) out *= double(extent);
    return out;
  }

  static constexpr int64_t kSmall = 8;  // an operand is kept if it is smaller than the value by this factor

  Program out_;
  std::vector<int64_t> bytes_;  // by buffer
  Lifetimes times_;
  std::vector<bool> is_step_;  // by buffer: the number of a step, with which random bits are computed
  std::set<std::string> names_;
  std::vector<Part> parts_;
  std::vector<int> part_of_;  // by buffer: of which it is a value or a result; -1: of none
  std::vector<bool> inside_;  // by buffer: is it a value inside of a part?
};

}  // namespace

Rematerialised rematerialise(const Program& program, std::vector<int64_t> bytes, int64_t limit,
                             const std::vector<Group>& groups) {
  return Rematerialiser(program, std::move(bytes), groups).run(limit);
}

}  // namespace caravan::optimize
