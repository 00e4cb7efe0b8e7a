#include "caravan/optimize/contraction.h"

#include <algorithm>
#include <array>

#include "caravan/ir/write_form.h"
#include "caravan/ops/table.h"
#include "caravan/optimize/reads.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::Scalar;
using ir::Term;

namespace {

// Which iterators an entry of the body depends on.
void mark(const Accumulation& a, int entry, std::vector<bool>& iterators) {
  const Scalar& s = a.body.entries()[size_t(entry)];
  switch (s.kind) {
    case Scalar::Kind::constant: return;
    case Scalar::Kind::position: iterators.assign(iterators.size(), true); return;
    case Scalar::Kind::load:
      for (const Term& term : a.operands[size_t(s.operand)].map)
        for (size_t k = 0; k < iterators.size(); ++k)
          if (term.mentions(int(k))) iterators[k] = true;
      return;
    case Scalar::Kind::cast: return mark(a, s.args[0], iterators);
    case Scalar::Kind::apply:
      for (int k = 0; k < row(s.op).arity; ++k) mark(a, s.args[k], iterators);
      return;
  }
}

int64_t points(const Accumulation& a, const std::vector<int>& iterators) {
  int64_t out = 1;
  for (int k : iterators) out *= a.extents[size_t(k)];
  return out;
}

}  // namespace

bool is_contraction(const ir::Program& program, const Accumulation& a, const Tuning& tuning) {
  if (a.accumulator != Accumulator::add || !is_float(program.buffers[size_t(a.target)].dtype) ||
      a.body.entries().empty())
    return false;
  const Scalar& root = a.body.entries().back();
  if (root.kind != Scalar::Kind::apply || root.op != Op::mul || !ir::write_form(program, a).injective || has_loads(a))
    return false;

  std::array<std::vector<bool>, 2> in;  // by factor: the iterators it depends on
  for (int f = 0; f < 2; ++f) {
    in[size_t(f)].assign(a.iterators.size(), false);
    mark(a, root.args[f], in[size_t(f)]);
  }
  std::vector<int> batch, summed;
  int innermost = -1;
  std::array<std::vector<int>, 2> alone;  // by factor: the written iterators that only it depends on
  for (int k = 0; k < int(a.iterators.size()); ++k) {
    if (a.extents[size_t(k)] == 1) continue;
    const bool written = std::any_of(a.write.begin(), a.write.end(), [&](const Term& t) { return t.mentions(k); });
    const bool first = in[0][size_t(k)], second = in[1][size_t(k)];
    if (!written && !first && !second) return false;
    (!written ? summed : first == second ? batch : alone[first ? 0 : 1]).push_back(k);
    if (written && stride(program, a.target, a.write, k) == 1) innermost = k;
  }
  const bool first = std::find(alone[0].begin(), alone[0].end(), innermost) != alone[0].end();
  const std::vector<int>&columns = alone[first ? 0 : 1], &rows = alone[first ? 1 : 0];
  if (std::find(columns.begin(), columns.end(), innermost) == columns.end()) return false;
  // Every condition must leave out a term for all sums of a tile or for none: it may be on terms and on some rows, but
  // not on the columns.
  auto in_conditions = [&](int k) {
    return std::any_of(a.where.begin(), a.where.end(), [&](const Term& t) { return t.mentions(k); });
  };
  if (!a.where.empty()) {
    const bool on_terms = std::all_of(a.where.begin(), a.where.end(), [&](const Term& t) {
      return std::any_of(summed.begin(), summed.end(), [&](int k) { return t.mentions(k); });
    });
    const bool free_rows = std::any_of(rows.begin(), rows.end(), [&](int k) {
      return a.extents[size_t(k)] >= tuning.least_tile_rows && !in_conditions(k);
    });
    if (!on_terms || !free_rows || in_conditions(innermost)) return false;
  }
  const int64_t inner = a.extents[size_t(innermost)];
  return is_large_contraction(points(a, batch), points(a, rows), points(a, columns) / inner, inner, points(a, summed),
                              tuning);
}

}  // namespace caravan::optimize
