#include "caravan/optimize/narrow_positions.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "caravan/ir/write_form.h"
#include "caravan/ops/table.h"
#include "caravan/optimize/reads.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::Body;
using ir::BufferId;
using ir::Program;
using ir::Scalar;
using ir::Term;

namespace {

constexpr int64_t kMostInByte = 255;

// An argmax or argmin that counts all its iterators. Those that it reduces are the last ones, and are its window.
struct Search {
  int64_t window = 1;            // how many elements a window has
  std::vector<int64_t> strides;  // by axis of the target: by how much its iterator moves the position
  bool may_be_empty = false;
};
std::optional<Search> search_of(const Program& program, const Accumulation& a) {
  if (!keeps_position(a.accumulator) || a.part || a.collective) return std::nullopt;
  Search out;
  out.may_be_empty = !a.where.empty() || !ir::write_form(program, a).covers;
  std::vector<int> axes(a.extents.size(), -1);
  for (size_t axis = 0; axis < a.write.size(); ++axis) {
    if (!is_iterator_or_number(a.write[axis])) return std::nullopt;
    for (const Term::Part& part : a.write[axis].parts)
      if (std::exchange(axes[size_t(part.which)], int(axis)) >= 0) return std::nullopt;
  }
  out.strides.assign(a.write.size(), 0);
  int64_t stride = 1;
  bool inside = true;  // of the window
  for (size_t k = a.extents.size(); k-- > 0;) {
    if (a.extents[k] == 1) continue;
    if (!a.counted[k] || a.extents[k] == 0) return std::nullopt;
    inside = inside && axes[k] < 0;
    if (!inside && axes[k] < 0) return std::nullopt;
    if (axes[k] >= 0) out.strides[size_t(axes[k])] = stride;
    if (__builtin_mul_overflow(stride, a.extents[k], &stride)) return std::nullopt;
    if (inside) out.window = stride;
  }
  const DType dtype = program.buffers[size_t(a.target)].dtype;
  const bool fits = out.window <= std::numeric_limits<int32_t>::max();
  return fits && (dtype == DType::i64 || dtype == DType::i32) ? std::optional(out) : std::nullopt;
}

// What the entry of a body compares as a position: that of the point, or an element of an iota.
std::optional<Term> position_term(const Program& program, const Accumulation& a, const Scalar& entry) {
  if (entry.kind == Scalar::Kind::position) {
    Term out;
    int64_t stride = 1;
    for (size_t k = a.extents.size(); k-- > 0; stride *= a.extents[k])
      out.add(Term::Part::Kind::iterator, int(k), stride);
    return out;
  }
  if (entry.kind != Scalar::Kind::load) return std::nullopt;
  const ir::Operand& operand = a.operands[size_t(entry.operand)];
  if (!std::holds_alternative<ir::IotaLeaf>(program.buffers[size_t(operand.buffer)].kind)) return std::nullopt;
  return operand.map[0];
}

// A reader that compares positions: by entry of its body that does, the place of the point in the window, and the
// operand with the position of the best.
struct Compared {
  Term within;
  int operand = 0;
};
using Comparisons = std::map<int, Compared>;

// Adds those with the result of the search, unless something else is done with it.
bool add_comparisons(const Program& program, const Accumulation& a, BufferId target, const Search& search,
                     Comparisons& out) {
  auto is_target = [&](int e) {
    const Scalar& entry = a.body.entries()[size_t(e)];
    return entry.kind == Scalar::Kind::load && a.operands[size_t(entry.operand)].buffer == target;
  };
  std::vector<int64_t> ranges;
  for (const ir::Symbol& symbol : program.symbols) ranges.push_back(symbol.range);
  const auto& entries = a.body.entries();
  if (a.collective || has_loads(a) || is_target(a.body.result())) return false;
  for (size_t e = 0; e < entries.size(); ++e) {
    const std::span<const int> args = args_of(entries[e]);
    if (std::ranges::none_of(args, is_target)) continue;
    if (entries[e].kind != Scalar::Kind::apply || entries[e].op != Op::eq) return false;
    const int best = is_target(args[0]) ? 0 : 1;
    const std::optional<Term> at = position_term(program, a, entries[size_t(args[1 - best])]);
    if (!at) return false;
    const int operand = entries[size_t(args[best])].operand;
    Term within = *at;
    for (size_t axis = 0; axis < search.strides.size(); ++axis)
      within = within - a.operands[size_t(operand)].map[axis] * search.strides[axis];
    const auto [low, high] = ir::range(within, a.extents, ranges);
    if (low < 0 || high >= search.window) return false;
    out[int(e)] = {within, operand};
  }
  return true;
}

// The body with `iota[within] == i32(n)` instead of each comparison.
void compare_within(Program& program, Accumulation& a, const Comparisons& comparisons, BufferId iota) {
  Body body;
  std::map<int, int> instead;
  for (const auto& [entry, compared] : comparisons) {
    const DType dtype = program.buffers[size_t(a.operands[size_t(compared.operand)].buffer)].dtype;
    const int place = body.load(int(a.operands.size())), best = body.load(compared.operand);
    const int sides[2] = {place, dtype == DType::i32 ? best : body.cast(DType::i32, best)};
    instead[entry] = body.apply(Op::eq, sides);
    a.operands.push_back({iota, {compared.within}});
  }
  body.finish(body.add(a.body, [&](int e) { return instead.count(e) ? instead[e] : -1; }));
  a.body = std::move(body);
  drop_unread(a);
}

}  // namespace

Program narrow_positions(const Program& program) {
  std::vector<int> writers(program.buffers.size(), 0);  // and other reasons why a position stays as it is
  std::vector<std::vector<size_t>> readers(program.buffers.size());
  for (size_t k = 0; k < program.accumulations.size(); ++k) {
    const Accumulation& a = program.accumulations[k];
    ++writers[size_t(a.target)];
    for_each_read(program, a, [&](BufferId id) {
      if (auto& all = readers[size_t(id)]; all.empty() || all.back() != k) all.push_back(k);
    });
  }
  for (const BufferId id : program.observed) ++writers[size_t(id)];
  for (const ir::Assignment& a : program.assignments) ++writers[size_t(a.value)];

  Program out = program;
  for (Accumulation& a : out.accumulations) {
    if (writers[size_t(a.target)] != 1) continue;
    const std::optional<Search> search = search_of(program, a);
    if (!search) continue;
    std::map<size_t, Comparisons> comparisons;
    const auto& all = readers[size_t(a.target)];
    if (!std::ranges::all_of(all, [&](size_t reader) {
          return add_comparisons(out, out.accumulations[reader], a.target, *search, comparisons[reader]);
        }))
      continue;

    ir::Buffer& target = out.buffers[size_t(a.target)];
    target.dtype = search->window <= kMostInByte && !search->may_be_empty ? DType::u8 : DType::i32;
    const std::string name = "places in windows of " + target.name + " " + std::to_string(out.buffers.size());
    for (size_t axis = 0, k = 0; k < a.extents.size(); ++k, axis = 0) {
      while (axis < a.write.size() && !a.write[axis].mentions(int(k))) ++axis;
      a.counted[k] = axis == a.write.size();
    }
    const BufferId iota = BufferId(out.buffers.size());
    Shape shape;
    shape.output.push_back({search->window});
    out.buffers.push_back({name, std::move(shape), DType::i32, ir::IotaLeaf{}, a.source});
    for (const auto& [reader, compared] : comparisons) compare_within(out, out.accumulations[reader], compared, iota);
  }
  return out;
}

}  // namespace caravan::optimize
