#include "caravan/runtime/ids.h"

#include <algorithm>

#include "caravan/base/error.h"
#include "caravan/ir/print.h"
#include "caravan/ops/op.h"

namespace caravan {

using ir::Accumulation;
using ir::Term;
using Part = ir::Term::Part;

namespace {

// Ids. A write of so many is checked in some tenths of a second, a few nanoseconds for each. A check of more would
// take longer, and is left out.
constexpr int64_t kMostPoints = int64_t(1) << 26;

// Does the accumulation write every iterator to an axis of its own, and nothing but what it reads there?
bool is_copy(const Accumulation& a) {
  if (a.accumulator != Accumulator::add || !a.where.empty() || a.operands.size() != 1 ||
      a.write.size() != a.iterators.size() || !(a.body == ir::Body::identity()))
    return false;
  std::vector<bool> written(a.iterators.size(), false);
  for (const Term& term : a.write) {
    if (term.constant != 0 || term.parts.size() != 1) return false;
    const Part& part = term.parts[0];
    if (part.kind != Part::Kind::iterator || part.coefficient != 1 || written[size_t(part.which)]) return false;
    written[size_t(part.which)] = true;
  }
  return std::none_of(a.operands[0].map.begin(), a.operands[0].map.end(), [](const Term& t) { return t.has_load(); });
}

// Where a copy has what is read of it: the operand's map over the reader's iterators.
ir::Operand behind(const Accumulation& copy, const ir::Operand& read) {
  std::vector<const Term*> value(copy.iterators.size());
  for (size_t axis = 0; axis < copy.write.size(); ++axis)
    value[size_t(copy.write[axis].parts[0].which)] = &read.map[axis];
  ir::Operand out{copy.operands[0].buffer, {}};
  for (const Term& term : copy.operands[0].map) {
    Term through = Term::number(term.constant);
    for (const Part& part : term.parts)
      through = part.kind == Part::Kind::iterator ? through + *value[size_t(part.which)] * part.coefficient
                                                  : through + Term::symbol(part.which, part.coefficient);
    out.map.push_back(std::move(through));
  }
  return out;
}

bool is_plain_load(const Term& term) {
  return term.constant == 0 && term.parts.size() == 1 && term.parts[0].kind == Part::Kind::load &&
         term.parts[0].coefficient == 1;
}

template <class Id>
bool all_below(const Array& ids, int64_t size) {
  const auto* first = static_cast<const Id*>(ids.data());
  return std::all_of(first, first + ids.size(), [size](Id id) { return id >= 0 && int64_t(id) < size; });
}
// Are all elements ids of a table of this size? It answers for many at a time, and only for integers.
bool all_are_ids(const Array& ids, int64_t size) {
  return (ids.dtype() == DType::i32 && all_below<int32_t>(ids, size)) ||
         (ids.dtype() == DType::i64 && all_below<int64_t>(ids, size));
}

}  // namespace

std::vector<IdUse> id_uses(const ir::Program& program) {
  std::vector<const Accumulation*> writer(program.buffers.size(), nullptr);
  for (const Accumulation& a : program.accumulations) writer[size_t(a.target)] = &a;
  std::vector<IdUse> out;
  auto visit = [&](const Accumulation& a, ir::BufferId indexed, const std::vector<Term>& map) {
    const ir::Buffer& table = program.buffers[size_t(indexed)];
    for (size_t axis = 0; axis < map.size(); ++axis) {
      if (!is_plain_load(map[axis])) continue;
      ir::Operand ids = a.operands[size_t(map[axis].parts[0].which)];
      while (writer[size_t(ids.buffer)] && is_copy(*writer[size_t(ids.buffer)]))
        ids = behind(*writer[size_t(ids.buffer)], ids);
      const bool has_load = std::any_of(ids.map.begin(), ids.map.end(), [](const Term& t) { return t.has_load(); });
      const ir::BufferKind& kind = program.buffers[size_t(ids.buffer)].kind;
      if (has_load || !(std::holds_alternative<ir::DataLeaf>(kind) || std::holds_alternative<ir::StateLeaf>(kind)))
        continue;
      const std::string user = " (" + a.label + (a.source.known() ? ", " + to_string(a.source) : "") + ")";
      const int64_t size = table.shape.sizes()[axis];
      IdUse use{ids.buffer,
                ids.map,
                a.extents,
                size,
                map.size() == 1 ? "there are " + std::to_string(size) + " `" + table.name + "`" + user + ", so ids"
                                : "ids of " + ir::axis_text(table.shape, axis) + " of `" + table.name + "`" + user,
                a.source};
      const bool known = std::any_of(out.begin(), out.end(), [&](const IdUse& u) {
        return u.leaf == use.leaf && u.map == use.map && u.extents == use.extents && u.size == use.size;
      });
      if (!known) out.push_back(std::move(use));
    }
  };
  for (const Accumulation& a : program.accumulations) {
    if (!a.where.empty()) continue;  // not every id is used
    for (const ir::Operand& o : a.operands) visit(a, o.buffer, o.map);
    visit(a, a.target, a.write);
  }
  return out;
}

void check_ids(const ir::Program& program, const IdUse& use, const Array& ids) {
  struct Variable {
    int64_t count, stride;  // in the leaf
  };
  const std::vector<int64_t> sizes = ids.shape().sizes();
  std::vector<int64_t> iterators(use.extents.size(), 0), symbols(program.symbols.size(), 0);
  int64_t start = 0, stride = 1;
  for (size_t axis = sizes.size(); axis-- > 0; stride *= sizes[axis]) {
    start += use.map[axis].constant * stride;
    for (const Part& part : use.map[axis].parts)
      (part.kind == Part::Kind::iterator ? iterators : symbols)[size_t(part.which)] += part.coefficient * stride;
  }
  std::vector<Variable> variables;
  int64_t points = 1;
  auto add = [&](int64_t count, int64_t step) {
    if (step == 0 && count != 0) return;
    variables.push_back({count, step});
    points = count > kMostPoints || points > kMostPoints ? kMostPoints + 1 : points * count;
  };
  for (size_t k = 0; k < iterators.size(); ++k) add(use.extents[k], iterators[k]);
  for (size_t k = 0; k < symbols.size(); ++k)
    if (symbols[k] != 0) add(program.symbols[k].range > 0 ? program.symbols[k].range : kMostPoints + 1, symbols[k]);
  if (points > kMostPoints) return;
  if (ids.size() <= points && all_are_ids(ids, use.size)) return;

  for (int64_t point = 0; point < points; ++point) {
    int64_t at = start, rest = point;
    for (size_t k = variables.size(); k-- > 0; rest /= variables[k].count)
      at += rest % variables[k].count * variables[k].stride;
    const double id = ids.at(at);
    if (id >= 0 && id < double(use.size)) continue;
    std::string position;
    for (size_t axis = sizes.size(); axis-- > 0; at /= sizes[axis])
      position = std::to_string(at % sizes[axis]) + (position.empty() ? "" : ", ") + position;
    throw StateError("`" + program.buffers[size_t(use.leaf)].name + "` holds the id " + std::to_string(int64_t(id)) +
                         " at [" + position + "], but " + use.of + " must lie in 0.." + std::to_string(use.size - 1) +
                         ".",
                     use.where);
  }
}

}  // namespace caravan
