// What the rest of the system may ask about an op or an accumulator. The facts are in table.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "caravan/ops/dtype.h"

namespace caravan {

enum class Op : uint8_t;  // defined in table.h, beside its row
enum class Accumulator : uint8_t {
  add,
  mul,
  max,
  min,
  or_,
  and_,
  argmax,
  argmin,
  end_,  // not an accumulator: how many there are
};
inline constexpr int kAccumulatorCount = int(Accumulator::end_);

// What precision a result has, given the promoted precision p of the operands (dtype.h, rules 2-4).
enum class ResultType : uint8_t {
  same,    // p, but bool gives i32           (arithmetic)
  real,    // p if it is a float, else f32    (functions of the reals)
  logic,   // bool                            (comparisons)
  select,  // p of all but the first operand  (where)
};

// A scalar formula compiled from the text of a row: a list in which each entry reads earlier ones;
// the last entry is the result.
struct Formula {
  enum class Leaf : uint8_t { none, constant, variable };
  struct Entry {
    Leaf leaf = Leaf::none;
    Op op{};               // for none
    uint8_t args[3]{};     // for none: earlier entries
    uint8_t variable = 0;  // for variable: its index among the names the formula was compiled with
    double constant = 0;
  };
  std::array<Entry, 40> entries{};
  uint8_t size = 0;
};

// The interval from which finite-difference checks draw an operand; the row also names the kinks and poles
// whose neighbourhood they avoid.
struct CheckDomain {
  double low = -2, high = 2;
};

// A function of a row, written as a lambda, or none. A plain pointer would be enough, but with -fsanitize=undefined GCC
// 12 does not accept the comparison of a function's address with null as a constant expression, and the static_asserts
// of table.h need it.
template <class Number, class... Numbers>
class RowFunction {
 public:
  using Pointer = Number (*)(Numbers...);
  constexpr RowFunction() = default;
  template <class Lambda>
  requires std::is_convertible_v<Lambda, Pointer>
  constexpr RowFunction(Lambda lambda) : pointer_(lambda), given_(!std::is_null_pointer_v<Lambda>) {}
  constexpr explicit operator bool() const { return given_; }
  constexpr operator Pointer() const { return pointer_; }
  Number operator()(Numbers... arguments) const { return pointer_(arguments...); }

 private:
  Pointer pointer_ = nullptr;
  bool given_ = false;
};

// One row per op: everything known about it.
struct OpRow {
  Op op{};
  std::string_view name;
  int arity = 0;
  std::string_view doc;                                // one sentence
  RowFunction<double, double, double, double> eval{};  // of the operands a, b, c; those beyond the arity are ignored
  // The op in C, over operands a, b, c of type T, the type of the computation (spelling.h). Constants with a fraction
  // are written (T)0.5, so that a float is not converted to double. It may call the functions of codegen/functions.h.
  std::string_view c;
  std::string_view c_integer{};  // the spelling for integer T, if it differs
  // `eval` for integers, modulo 2^64. The result modulo 2^bits (`wrapped`) is the arithmetic of a narrower type. Set
  // iff the op can be computed in integers: its result is not `real`.
  RowFunction<int64_t, int64_t, int64_t, int64_t> integer{};
  // The pullbacks: the cotangent of operand a, b or c if that of the result is g, as a formula over g, a, b, c and y
  // (the result). Selections are written with `where`, never as a product with a 0/1 mask.
  std::array<std::string_view, 3> pullback{};
  ResultType result = ResultType::same;
  std::string_view infix{};  // "+" where the op is written between its operands
  // The C++ function's name, set iff `name` is a C++ keyword (not, and, or); the enumerator is then `name` with a
  // trailing _.
  std::string_view function{};
  bool commutative = false, associative = false;
  std::optional<double> neutral{};               // x op neutral = x (right)
  int monotone = 0;                              // +1 nondecreasing in a, -1 nonincreasing, 0 neither or unknown
  bool zero_preserving = false;                  // op(0, b, c) = 0 for all finite b, c other than poles
  std::array<CheckDomain, 3> domain{};           // for gradient checks
  std::array<std::optional<double>, 3> avoid{};  // kinks and poles in a
  bool avoid_ties = false;                       // equal operands are a kink too
  bool avoid_integers = false;  // multiples of 1/2 are kinks (floor, round): of a, or of a / b if arity is 2 (mod)
  bool idempotent = false;      // f(f(a)) = f(a), or op(a, a) = a, to the bit
};

std::span<const OpRow> op_rows();
const OpRow& row(Op op);
std::optional<Op> find_op(std::string_view name);
const Formula& pullback(Op op, int operand);  // compiled over the variables g, a, b, c, y in this order
bool pullback_is_zero(Op op, int operand);
// Do the interpreter and compiled code compute the same bits? They do if the spelling calls only functions whose result
// IEEE 754 fixes. Others, such as exp, are our own in compiled code and the C library's in the interpreter.
bool is_arithmetic(Op op);

// One row per accumulator: y[L(i)] (+)= body(i).
struct AccumulatorRow {
  Accumulator accumulator{};
  std::string_view name;
  std::string_view doc;
  std::string_view symbol;  // "+=", "max=" ...
  double neutral = 0;
  RowFunction<double, double, double> combine{};  // of total, value; none for argmax, argmin, which keep a position
  std::optional<Op> op{};      // the pointwise op that joins two partial results; none for argmax, argmin
  bool indexed_write = false;  // may the write map have an index tensor?
  // The cotangent of an operand at one point is the formula `gradient` of these: chain (the pullback of the body, given
  // the cotangent of the result), body (its value), position (of this point), and first and second, the auxiliaries.
  // These are further accumulations over the same points.
  struct Auxiliary {
    std::string_view accumulator;  // its name
    std::string_view body;         // a formula over `body`
  };
  std::array<Auxiliary, 2> auxiliaries{};
  std::string_view gradient;         // a formula over chain, body, position, first, second; "0" if there is no gradient
  std::string_view refuse_second{};  // why there is no second derivative; empty if there is one
};

std::span<const AccumulatorRow> accumulator_rows();
const AccumulatorRow& row(Accumulator accumulator);
std::optional<Accumulator> find_accumulator(std::string_view name);
const Formula& gradient(Accumulator accumulator);                   // over chain, body, position, first, second
const Formula& auxiliary_body(Accumulator accumulator, int which);  // over body
// Is the accumulated value a position (argmax, argmin) rather than a combination of body values?
bool keeps_position(Accumulator accumulator);

// Does `value` beat `best` in a max or min? NaN beats everything but NaN, and of equal values the first stays. An
// argmax that has no best yet must take its first point without this test: starting from -inf would be wrong, because
// -inf does not beat -inf.
bool beats(Accumulator max_or_min_or_arg, double value, double best);

// --- the rules of precision (dtype.h), for the interpreter and for compiled code ---

// What the rules need to know of an operand.
struct OperandType {
  DType dtype{};
  // A C++ number, or computed from such numbers alone. Its dtype says how it was written: a float for a fraction or a
  // double, otherwise an integer.
  bool weak = false;
  std::optional<double> number{};  // its value, where it is known
};
struct OpType {
  DType compute{};    // the op is computed in it; operands are converted to it, except for the condition of `where`
  DType result{};     // bool for comparisons and logic, else `compute`
  bool weak = false;  // all operands are numbers, and so the result is one, computed in f64
};
OpType type_of(Op op, std::span<const OperandType> operands);

// How a number is assumed to have been written if that is not known: as an integer if it is one.
DType written_type(double number);

// The precision of op(operands...); `weak[i]` marks C++ numbers. Two numbers give f32.
DType result_type(Op op, std::span<const DType> operands, std::span<const bool> weak);
DType result_type(Accumulator accumulator, DType body);  // argmax, argmin give i64; or, and give bool
// The precision in which an accumulation computes its body, whose own precision is `body`. A sum or product with a
// wider `target` computes its terms in at least that precision, so that a product of u8 does not wrap before it is
// added.
DType body_type(Accumulator accumulator, DType body, DType target);

// The initial value of an accumulator of this precision: the neutral element; for max and min of integers and bool, the
// lowest or highest value. The highest i64 is not a double: here it is inf, and `integer_neutral` has it exactly.
double neutral(Accumulator accumulator, DType dtype);
int64_t integer_neutral(Accumulator accumulator, DType dtype);

}  // namespace caravan
