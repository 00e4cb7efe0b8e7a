#include <algorithm>
#include <cmath>

#include "caravan/base/error.h"
#include "caravan/ops/op.h"
#include "caravan/ops/spelling.h"
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

namespace {

struct Spellings {
  Spelling floats, integers;
};
constexpr auto compile_spellings() {
  std::array<Spellings, kOpCount> out{};
  for (int i = 0; i < kOpCount; ++i)
    out[size_t(i)] = {compile_spelling(kOps[i].c),
                      compile_spelling(kOps[i].c_integer.empty() ? kOps[i].c : kOps[i].c_integer)};
  return out;
}
static_assert(row_without_spelling(kOps) == -1,
              "table.h: a .c or .c_integer text does not compile, or reads an operand that the op does not have: "
              "compile_spelling(text).error says why, .at where");
constexpr auto kSpellings = compile_spellings();

}  // namespace

const Spelling& spelling(Op op, bool integers) {
  row(op);  // checks
  return integers ? kSpellings[size_t(op)].integers : kSpellings[size_t(op)].floats;
}

bool is_arithmetic(Op op) { return calls_only(spelling(op, false), is_exact); }

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

// Rules 1 and 2: the promoted precision of the operands that are not weak. A weak number with a fraction promotes
// integers to f32.
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

DType written_type(double number) {
  return std::fabs(number) < 0x1p63 && number == std::trunc(number) ? DType::i32 : DType::f32;
}

OpType type_of(Op op, std::span<const OperandType> operands) {
  const OpRow& of = row(op);
  CARAVAN_CHECK(int(operands.size()) == of.arity, std::string(of.name) + " has " + std::to_string(of.arity) +
                                                      " operands, not " + std::to_string(operands.size()));
  DType dtypes[3]{};
  bool weak[3]{}, all_weak = true, any_float = of.result == ResultType::real;
  for (size_t k = 0; k < operands.size(); ++k) {
    dtypes[k] = operands[k].dtype;
    weak[k] = operands[k].weak;
    if (k == 0 && of.result == ResultType::select) continue;  // the condition
    all_weak = all_weak && weak[k];
    any_float = any_float || is_float(dtypes[k]);
  }
  if (of.result == ResultType::logic) {
    if (all_weak) return {DType::f64, DType::boolean, false};
    std::optional<DType> met;
    for (size_t k = 0; k < operands.size(); ++k)
      if (!weak[k]) met = met ? promote(*met, dtypes[k]) : dtypes[k];
    if (is_float(*met)) return {*met, DType::boolean, false};
    // Integers are compared with an integral number as integers, so that rounding cannot make different numbers equal.
    auto all_hold = [&](DType dtype) {
      return std::all_of(operands.begin(), operands.end(), [&](const OperandType& operand) {
        return !operand.weak || (operand.number && can_hold(dtype, *operand.number));
      });
    };
    const DType compute = all_hold(*met) ? *met : all_hold(DType::i64) ? DType::i64 : DType::f64;
    return {compute, DType::boolean, false};
  }
  if (all_weak) return {DType::f64, any_float ? DType::f32 : DType::i32, true};
  const DType result = result_type(op, {dtypes, operands.size()}, {weak, operands.size()});
  return {result, result, false};
}

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

DType body_type(Accumulator accumulator, DType body, DType target) {
  const bool joins_terms = accumulator == Accumulator::add || accumulator == Accumulator::mul;
  return joins_terms && body != target ? result_type(accumulator, body) : body;
}

double neutral(Accumulator accumulator, DType dtype) {
  const double of_reals = row(accumulator).neutral;
  if (is_float(dtype) || std::isfinite(of_reals) || (dtype == DType::i64 && of_reals > 0)) return of_reals;
  return double(integer_neutral(accumulator, dtype));
}

int64_t integer_neutral(Accumulator accumulator, DType dtype) {
  const double of_reals = row(accumulator).neutral;
  if (std::isfinite(of_reals)) return int64_t(of_reals);
  return of_reals < 0 ? lowest_integer(dtype) : highest_integer(dtype);
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
