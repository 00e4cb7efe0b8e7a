#include <algorithm>
#include <cmath>

#include "caravan/base/error.h"
#include "caravan/ops/op.h"
#include "caravan/ops/table.h"

namespace caravan {

std::span<const OpRow> op_rows() { return kOps; }

const OpRow& row(Op op) {
  CARAVAN_CHECK(int(op) < kOpCount, "op number " + std::to_string(int(op)));
  return kOps[int(op)];
}

std::optional<Op> find_op(std::string_view name) {
  for (const OpRow& row : kOps)
    if (row.name == name) return row.op;
  return std::nullopt;
}

const Formula& pullback(Op op, int operand) {
  const OpRow& of = row(op);
  CARAVAN_CHECK(
      operand >= 0 && operand < of.arity,
      "operand " + std::to_string(operand) + " of " + std::string(of.name) + ", which has " + std::to_string(of.arity));
  return kPullbacks[size_t(op)][size_t(operand)].formula;
}

bool pullback_is_zero(Op op, int operand) {
  const Formula& formula = pullback(op, operand);
  return formula.size == 1 && formula.entries[0].leaf == Formula::Leaf::constant && formula.entries[0].constant == 0;
}

bool is_arithmetic(Op op) {
  constexpr std::string_view kRounded[] = {"fabs", "sqrt", "floor", "ceil", "rint", "trunc", "fma"};
  const std::string_view c = row(op).c;
  for (size_t end = c.find('('); end != c.npos; end = c.find('(', end + 1)) {
    size_t from = end;
    while (from > 0 && isalnum(uint8_t(c[from - 1]))) --from;
    const std::string_view called = c.substr(from, end - from);
    if (!called.empty() && std::find(std::begin(kRounded), std::end(kRounded), called) == std::end(kRounded))
      return false;
  }
  return true;
}

std::span<const AccumulatorRow> accumulator_rows() { return kAccumulators; }

const AccumulatorRow& row(Accumulator accumulator) {
  CARAVAN_CHECK(int(accumulator) < kAccumulatorCount, "accumulator number " + std::to_string(int(accumulator)));
  return kAccumulators[int(accumulator)];
}

std::optional<Accumulator> find_accumulator(std::string_view name) {
  for (const AccumulatorRow& row : kAccumulators)
    if (row.name == name) return row.accumulator;
  return std::nullopt;
}

const Formula& gradient(Accumulator accumulator) {
  row(accumulator);  // checks
  return kAccumulatorFormulas[size_t(accumulator)].gradient.formula;
}

const Formula& auxiliary_body(Accumulator accumulator, int which) {
  const AccumulatorRow& of = row(accumulator);
  CARAVAN_CHECK(which >= 0 && which < 2 && !of.auxiliaries[size_t(which)].accumulator.empty(),
                "auxiliary " + std::to_string(which) + " of " + std::string(of.name));
  return kAccumulatorFormulas[size_t(accumulator)].auxiliaries[size_t(which)].formula;
}

bool keeps_position(Accumulator accumulator) { return !row(accumulator).combine; }

bool beats(Accumulator max_or_min_or_arg, double value, double best) {
  if (std::isnan(best)) return false;
  if (std::isnan(value)) return true;
  switch (max_or_min_or_arg) {
    case Accumulator::max:
    case Accumulator::argmax: return value > best;
    case Accumulator::min:
    case Accumulator::argmin: return value < best;
    default: CARAVAN_CHECK(false, std::string(row(max_or_min_or_arg).name) + " does not compare"); return false;
  }
}

namespace {

// Rules 1 and 2: the promoted precision of the operands that are not weak; a weak fraction lifts integers to f32.
DType promoted(std::span<const DType> operands, std::span<const bool> weak) {
  std::optional<DType> strong;
  bool weak_float = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (weak[i])
      weak_float = weak_float || is_float(operands[i]);
    else
      strong = strong ? promote(*strong, operands[i]) : operands[i];
  }
  if (!strong) return DType::f32;
  return weak_float && !is_float(*strong) ? DType::f32 : *strong;
}

}  // namespace

DType result_type(Op op, std::span<const DType> operands, std::span<const bool> weak) {
  const OpRow& of = row(op);
  CARAVAN_CHECK(
      int(operands.size()) == of.arity && weak.size() == operands.size(),
      std::string(of.name) + " has " + std::to_string(of.arity) + " operands, not " + std::to_string(operands.size()));
  switch (of.result) {
    case ResultType::logic: return DType::boolean;
    case ResultType::select: return promoted(operands.subspan(1), weak.subspan(1));
    case ResultType::same: {
      const DType p = promoted(operands, weak);
      return p == DType::boolean ? DType::i32 : p;
    }
    case ResultType::real: {
      const DType p = promoted(operands, weak);
      return is_float(p) ? p : DType::f32;
    }
  }
  return DType::f32;
}

DType result_type(Accumulator accumulator, DType body) {
  switch (accumulator) {
    case Accumulator::add:
    case Accumulator::mul: return body == DType::boolean || body == DType::u8 ? DType::i32 : body;
    case Accumulator::max:
    case Accumulator::min: return body;
    case Accumulator::or_:
    case Accumulator::and_: return DType::boolean;
    case Accumulator::argmax:
    case Accumulator::argmin: return DType::i64;
    case Accumulator::end_: break;
  }
  CARAVAN_CHECK(false, "accumulator number " + std::to_string(int(accumulator)));
  return body;
}

}  // namespace caravan
