#include "caravan/optimize/pack_operands.h"

#include <algorithm>
#include <map>
#include <utility>

#include "caravan/ops/op.h"
#include "caravan/optimize/contraction.h"
#include "caravan/optimize/reads.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::BufferId;
using ir::Term;

namespace {

class Packer {
 public:
  Packer(const ir::Program& program, const Tuning& tuning) : out_(program), tuning_(tuning) {}

  ir::Program run() {
    std::vector<Accumulation> rest = std::exchange(out_.accumulations, {});
    for (Accumulation& a : rest) {
      if (const int lane = lane_of(a); lane >= 0)
        for (ir::Operand& o : a.operands)
          if (const int axis = far_axis(a, o, lane); axis >= 0) o = packed(o, size_t(axis));
      out_.accumulations.push_back(std::move(a));
    }
    return std::move(out_);
  }

 private:
  static constexpr int kNear = -1, kNever = -2;

  // The innermost written iterator, if its stride in every operand is 0 or 1, or can be made 1 by a copy; else -1.
  int lane_of(const Accumulation& a) const {
    if (a.order.lanes >= 0 || has_loads(a) || is_contraction(out_, a, tuning_)) return -1;
    int lane = -1;
    bool reduces = false;
    for (int k = 0; k < int(a.iterators.size()); ++k) {
      const bool written = std::any_of(a.write.begin(), a.write.end(), [&](const Term& t) { return t.mentions(k); });
      if (!written)
        reduces = true;
      else if (a.extents[size_t(k)] >= tuning_.least_lanes && stride(out_, a.target, a.write, k) == 1)
        lane = k;
    }
    const bool all = lane >= 0 && reduces &&
                     std::all_of(a.operands.begin(), a.operands.end(),
                                 [&](const ir::Operand& o) { return far_axis(a, o, lane) != kNever; });
    return all ? lane : -1;
  }

  // The axis of the operand that has to become its last one. kNear: the stride is 0 or 1 already. kNever: a copy is not
  // possible, or does not pay.
  int far_axis(const Accumulation& a, const ir::Operand& o, int lane) const {
    const int64_t step = stride(out_, o.buffer, o.map, lane);
    if (step == 0 || step == 1) return kNear;
    int64_t points = 1;
    for (int64_t extent : a.extents) points *= extent;
    const ir::Buffer& buffer = out_.buffers[size_t(o.buffer)];
    const auto mentioning = std::count_if(o.map.begin(), o.map.end(), [&](const Term& t) { return t.mentions(lane); });
    const auto plain = std::find(o.map.begin(), o.map.end(), Term::iterator(lane));
    const bool possible = ir::in_memory(buffer) && mentioning == 1 && plain != o.map.end();
    return possible && points / tuning_.least_packed_reads >= buffer.shape.elements() ? int(plain - o.map.begin())
                                                                                      : kNever;
  }

  // A copy with this axis last.
  ir::Operand packed(const ir::Operand& from, size_t axis) {
    auto [at, fresh] = copies_.try_emplace({from.buffer, axis}, BufferId(out_.buffers.size()));
    if (fresh) add_copy(from.buffer, axis);
    return {at->second, last(from.map, axis)};
  }
  void add_copy(BufferId id, size_t axis) {
    const ir::Buffer from = out_.buffers[size_t(id)];
    Accumulation a;
    a.target = BufferId(out_.buffers.size());
    a.accumulator = Accumulator::add;
    a.extents = last(from.shape.sizes(), axis);
    for (size_t k = 0; k < a.extents.size(); ++k) {
      a.iterators.push_back("i" + std::to_string(k));
      a.write.push_back(Term::iterator(int(k)));
    }
    std::vector<Term> read = a.write;
    std::rotate(read.begin() + std::ptrdiff_t(axis), read.end() - 1, read.end());
    a.operands = {{id, std::move(read)}};
    a.body.finish(a.body.load(0));
    a.label = "packed";
    a.source = from.where;
    Shape shape;
    for (int64_t size : a.extents) shape.output.push_back({size});
    std::string name = "packed " + from.name + " " + std::to_string(out_.buffers.size());
    out_.buffers.push_back({std::move(name), std::move(shape), from.dtype, ir::Computed{}, from.where});
    out_.accumulations.push_back(std::move(a));
  }
  template <class T>
  static std::vector<T> last(std::vector<T> items, size_t axis) {
    std::rotate(items.begin() + std::ptrdiff_t(axis), items.begin() + std::ptrdiff_t(axis) + 1, items.end());
    return items;
  }

  ir::Program out_;
  const Tuning& tuning_;
  std::map<std::pair<BufferId, size_t>, BufferId> copies_;  // by buffer and axis
};

}  // namespace

ir::Program pack_operands(const ir::Program& program, const Target& target) {
  return Packer(program, target.tuning).run();
}

}  // namespace caravan::optimize
