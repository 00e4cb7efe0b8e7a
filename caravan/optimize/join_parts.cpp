#include "caravan/optimize/join_parts.h"

#include <algorithm>
#include <optional>
#include <set>

#include "caravan/ops/table.h"
#include "caravan/optimize/reads.h"
#include "caravan/optimize/remove_unused.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::BufferId;
using ir::Program;
using ir::Scalar;
using ir::Term;
using Part = Term::Part;

namespace {

// The operands of a body ((a + b) + c) + ... in the order in which they are added. Empty if the body has another form
// or an operand twice.
std::vector<size_t> added(const ir::Body& body) {
  const auto& entries = body.entries();
  std::vector<size_t> out;
  std::set<int> seen;
  auto add_load = [&](int e) {
    const Scalar& s = entries[size_t(e)];
    if (s.kind != Scalar::Kind::load || !seen.insert(s.operand).second) return false;
    out.push_back(size_t(s.operand));
    return true;
  };
  int at = body.result();
  for (; entries[size_t(at)].kind == Scalar::Kind::apply; at = entries[size_t(at)].args[0])
    if (entries[size_t(at)].op != Op::add || !add_load(entries[size_t(at)].args[1])) return {};
  if (!add_load(at)) return {};
  std::reverse(out.begin(), out.end());
  return out;
}

// The positions along one axis that an accumulation writes.
struct Range {
  int64_t from = 0, extent = 0;
};

// The range of every axis, if the accumulation writes a box: each axis is indexed by a constant, or by an iterator that
// no other axis has. Empty otherwise.
std::vector<Range> written_box(const Accumulation& a) {
  std::vector<Range> out;
  std::vector<bool> used(a.extents.size(), false);
  for (const Term& t : a.write) {
    if (t.parts.empty()) {
      out.push_back({t.constant, 1});
      continue;
    }
    const Part& part = t.parts[0];
    if (t.parts.size() > 1 || part.kind != Part::Kind::iterator || part.coefficient != 1 || used[size_t(part.which)])
      return {};
    used[size_t(part.which)] = true;
    out.push_back({t.constant, a.extents[size_t(part.which)]});
  }
  return out;
}

bool is_narrow(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// Do several points write to one element?
bool reduces(const Accumulation& a) {
  std::vector<bool> kept(a.extents.size(), false);
  for (const Term& t : a.write)
    for (const Part& part : t.parts)
      if (part.kind == Part::Kind::iterator) kept[size_t(part.which)] = true;
  for (size_t k = 0; k < kept.size(); ++k)
    if (!kept[k] && a.extents[k] != 1) return true;
  return false;
}

class Joiner {
 public:
  explicit Joiner(const Program& program)
      : out_(program), producer_(program.buffers.size(), -1), readers_(program.buffers.size(), 0) {
    for (const ir::Buffer& b : program.buffers) names_.insert(b.name);
    for (size_t k = 0; k < program.accumulations.size(); ++k) {
      producer_[size_t(program.accumulations[k].target)] = int(k);
      for_each_read(program, program.accumulations[k], [&](BufferId id) { ++readers_[size_t(id)]; });
    }
    for (BufferId id : program.observed) ++readers_[size_t(id)];
    for (const auto& a : program.assignments) ++readers_[size_t(a.value)];
    before_.resize(program.accumulations.size());
    gone_.assign(program.accumulations.size(), false);
  }

  Program run() {
    for (size_t f = out_.accumulations.size(); f-- > 0;)  // an outer sum before the sums that are its terms
      if (!gone_[f]) join(f);
    std::vector<Accumulation> kept;
    for (size_t k = 0; k < out_.accumulations.size(); ++k) {
      for (Accumulation& a : before_[k]) kept.push_back(std::move(a));
      if (!gone_[k]) kept.push_back(std::move(out_.accumulations[k]));
    }
    out_.accumulations = std::move(kept);
    return remove_unused(out_);
  }

 private:
  const ir::Buffer& buffer(BufferId id) const { return out_.buffers[size_t(id)]; }
  bool alike(BufferId a, BufferId b) const {
    return buffer(a).dtype == buffer(b).dtype && buffer(a).shape.sizes() == buffer(b).shape.sizes();
  }

  // The buffers that the accumulation adds, in order; empty if it is no such sum. If the first one is a sum itself,
  // with no other reader, it is replaced by its terms. `sums` receives the accumulations that are taken apart.
  std::vector<BufferId> terms(size_t f, std::vector<size_t>& sums) const {
    std::vector<BufferId> reversed;
    for (;;) {
      const Accumulation& a = out_.accumulations[f];
      const std::vector<size_t> order = added(a.body);
      const bool plain =
          a.accumulator == Accumulator::add && a.where.empty() && a.order.lanes < 0 && a.order.blocks.empty() &&
          !a.part && order.size() > 1 && order.size() == a.operands.size() && is_whole(a, a.target) &&
          std::all_of(a.operands.begin(), a.operands.end(),
                      [&](const ir::Operand& o) { return o.map == a.write && alike(o.buffer, a.target); });
      if (!plain) break;
      if (!sums.empty()) reversed.pop_back();
      sums.push_back(f);
      for (size_t k = order.size(); k-- > 0;) reversed.push_back(a.operands[order[k]].buffer);
      const BufferId first = reversed.back();
      if (readers_[size_t(first)] != 1 || producer_[size_t(first)] < 0) break;
      f = size_t(producer_[size_t(first)]);
    }
    return {reversed.rbegin(), reversed.rend()};
  }
  bool is_whole(const Accumulation& a, BufferId target) const {
    const std::vector<Range> box = written_box(a);
    const std::vector<int64_t> sizes = buffer(target).shape.sizes();
    if (box.size() != sizes.size()) return false;
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      if (box[axis].from != 0 || box[axis].extent != sizes[axis]) return false;
    return true;
  }

  // A term of the sum that writes a slice: the one axis that it does not write completely, and the range that it
  // writes.
  struct Slice {
    size_t accumulation = 0, axis = 0;
    Range range;
  };
  std::optional<Slice> slice(BufferId id) const {
    const int p = producer_[size_t(id)];
    if (p < 0 || readers_[size_t(id)] != 1) return std::nullopt;
    const Accumulation& a = out_.accumulations[size_t(p)];
    const std::vector<Range> box = written_box(a);
    const std::vector<int64_t> sizes = buffer(id).shape.sizes();
    if (a.accumulator != Accumulator::add || a.part || a.collective || box.size() != sizes.size()) return std::nullopt;
    // A sum that is rounded to a narrow float may become -0.
    if (is_narrow(buffer(id).dtype) && reduces(a)) return std::nullopt;
    std::optional<Slice> out;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      if (box[axis].from == 0 && box[axis].extent == sizes[axis]) continue;
      if (out || box[axis].extent == 0) return std::nullopt;
      out = Slice{size_t(p), axis, box[axis]};
    }
    return out;
  }

  void join(size_t f) {
    std::vector<size_t> sums;
    const std::vector<BufferId> all = terms(f, sums);
    std::vector<Slice> slices;
    std::vector<BufferId> others;
    size_t first = all.size(), last = 0, others_before = 0;
    for (size_t k = 0; k < all.size(); ++k) {
      const std::optional<Slice> found = slice(all[k]);
      if (!found || (!slices.empty() && found->axis != slices[0].axis)) {
        others.push_back(all[k]);
        continue;
      }
      if (slices.empty()) first = k, others_before = others.size();
      last = k;
      slices.push_back(*found);
    }
    if (slices.size() < 2 || buffer(out_.accumulations[f].target).shape.elements() == 0 ||
        (others.size() > 1 && last - first + 1 != slices.size()))
      return;
    std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) { return a.range.from < b.range.from; });
    for (size_t k = 1; k < slices.size(); ++k)
      if (slices[k - 1].range.from + slices[k - 1].range.extent > slices[k].range.from) return;

    Accumulation& sum = out_.accumulations[f];
    BufferId joined = sum.target;
    if (!others.empty()) {
      joined = BufferId(out_.buffers.size());
      ir::Buffer made = buffer(sum.target);
      while (!names_.insert(made.name += ".parts").second) {
      }
      out_.buffers.push_back(std::move(made));
    }
    for (const Slice& p : slices) write_part(out_.accumulations[p.accumulation], joined);
    fill_gaps(f, joined, slices);
    for (size_t s : sums) gone_[s] = true;
    if (others.empty()) return;

    gone_[f] = false;
    others.insert(others.begin() + int64_t(others_before), joined);
    const std::vector<Term> map = sum.write;
    sum.operands.clear();
    ir::Body body;
    int total = -1;
    for (size_t k = 0; k < others.size(); ++k) {
      sum.operands.push_back({others[k], map});
      const int args[2] = {total, body.load(int(k))};
      total = k == 0 ? args[1] : body.apply(Op::add, args);
    }
    body.finish(total);
    sum.body = std::move(body);
  }

  void write_part(Accumulation& a, BufferId to) const {
    a.target = to;
    a.part = true;
    const DType dtype = buffer(to).dtype;
    if (!is_float(dtype) || reduces(a)) return;  // a sum starts with +0 already
    std::vector<DType> dtypes;
    for (const ir::Operand& o : a.operands) dtypes.push_back(buffer(o.buffer).dtype);
    const ir::EntryType made = ir::types_of(a.body, dtypes, {}).back();
    int value = a.body.result();
    if (made.weak || made.dtype != dtype || is_narrow(dtype)) value = a.body.cast(dtype, value);  // as a store would
    const int args[2] = {value, a.body.constant(0)};
    a.body.finish(a.body.apply(Op::add, args));
  }

  void fill_gaps(size_t f, BufferId joined, const std::vector<Slice>& slices) {
    const size_t axis = slices[0].axis;
    const std::vector<int64_t> sizes = buffer(joined).shape.sizes();
    auto fill = [&](int64_t from, int64_t to) {
      if (from >= to) return;
      Accumulation zero;
      zero.target = joined;
      zero.accumulator = Accumulator::add;
      zero.body = ir::Body::number(0);
      zero.part = true;
      zero.label = out_.accumulations[f].label;
      zero.source = out_.accumulations[f].source;
      for (size_t k = 0; k < sizes.size(); ++k) {
        zero.iterators.push_back("o" + std::to_string(k));
        zero.extents.push_back(k == axis ? to - from : sizes[k]);
        zero.write.push_back(Term::iterator(int(k)));
      }
      zero.write[axis].constant = from;
      before_[f].push_back(std::move(zero));
    };
    int64_t end = 0;
    for (const Slice& p : slices) fill(end, p.range.from), end = p.range.from + p.range.extent;
    fill(end, sizes[axis]);
  }

  Program out_;
  std::vector<int> producer_, readers_;            // by buffer of the program as given
  std::vector<std::vector<Accumulation>> before_;  // by accumulation: what is inserted before it
  std::vector<bool> gone_;
  std::set<std::string> names_;
};

}  // namespace

Program join_parts(const Program& program) { return Joiner(program).run(); }

}  // namespace caravan::optimize
