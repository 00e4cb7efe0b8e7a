// The body of an accumulation: a scalar expression of the operands at one point.
//
// A body is a list of entries. Each entry reads earlier ones, the last is the result, and equal entries are stored
// once. Entries have no side effects, so they may be evaluated in any order, duplicated or skipped. `where` does not
// protect its branches: both are evaluated, one is taken. Arithmetic is done in the entry's precision, without
// contraction; integers (i32, i64, u8) wrap. `types_of` defines that precision for the interpreter and for compiled
// code: a constant takes the precision of the operand it is combined with, everything else has its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "caravan/base/error.h"
#include "caravan/ops/op.h"

namespace caravan::ir {

struct Scalar {
  enum class Kind : uint8_t { constant, load, position, apply, cast } kind = Kind::constant;
  double constant = 0;                   // constant; `dtype` says how it was written: f32 for 2.0, i32 for 2
  int operand = 0;                       // load: which operand of the accumulation
  Op op{};                               // apply
  DType dtype{};                         // cast, constant
  int args[3] = {0, 0, 0};               // apply, cast: earlier entries
  bool operator==(const Scalar&) const;  // constants by bits, so NaN equals itself
};
std::span<const int> args_of(const Scalar& entry);  // the earlier entries that it reads

class Body {
 public:
  // Each returns the entry's number.
  int constant(double value);  // written as an integer if it is one
  int constant(double value, DType written);
  int load(int operand);
  int position();  // the linear position of this point in the box of the iterators
  int apply(Op op, std::span<const int> args);
  int cast(DType dtype, int arg);
  // The operand that op(args...) equals to the bit, also for NaN, infinities and -0, as in x * 1, x - 0, where(c, x, x)
  // and --x; -1 if there is none. The caller must check that the operand has the precision of op(args...).
  int equal_operand(Op op, std::span<const int> args) const;
  // Adds the formula with variable k replaced by entry variables[k] (-1 if the formula does not use it). Formulas are
  // gradients of floats, so they are simplified: constants are folded, and an entry that equals an operand is replaced
  // by it.
  int instantiate(const Formula& formula, std::span<const int> variables);
  // Adds the entries of another body, and returns the number of its result. Where `instead`, called with each entry's
  // number in the other body, gives an entry of this body, that one stands for it; -1 adds the entry itself.
  int add(const Body& other, const std::function<int(int entry)>& instead);
  void finish(int result);  // drops entries that the result does not need; the result becomes the last entry

  const std::vector<Scalar>& entries() const { return entries_; }
  int result() const { return int(entries_.size()) - 1; }
  bool is_constant(double value) const;  // is the whole body this number, to the bit (0 is not -0)?
  bool reads(int operand) const;
  bool uses_position() const;
  bool operator==(const Body&) const = default;

  // The same body with operand k renamed to renamed[k].
  Body with_operands(std::span<const int> renamed) const;
  // The same body with the position read from an operand.
  Body with_position(int operand) const;
  // The same body with operand k replaced by the constant values[k], if that is given.
  struct Number {
    double value;
    DType written;
  };
  Body with_constants(std::span<const std::optional<Number>> values) const;

  static Body op(Op op);   // op(load 0, load 1, ...)
  static Body identity();  // load 0
  static Body number(double value);

 private:
  int intern(Scalar entry);
  int apply_to_floats(Op op, std::span<const int> args);  // apply with simplification
  std::vector<Scalar> entries_;
};

double evaluate(const Body& body, std::span<const double> operands, double position);

// The cotangent of one operand, given that of the result: the chain rule over the entries, with the pullback of each
// op. Returns an entry of `into`, which starts as a copy of `body`'s entries, or -1 if the derivative is zero. A cast
// between floats passes the cotangent on, cast back to the argument's precision; any other cast has a zero derivative.
// `operands` gives the precisions of the operands. Without it they count as floats, and a cotangent is cast back only
// to a precision to which the body itself casts.
int pull_back(Body& into, const Body& body, int operand, int cotangent, std::span<const DType> operands = {});

struct EntryType {
  DType dtype{};
  bool weak = false;  // takes the precision of the operand it is combined with
  DType compute{};    // of an op: the precision to which operands are converted, except for the condition of `where`
};
// The precision of every entry.
std::vector<EntryType> types_of(const Body& body, std::span<const DType> operands, std::span<const bool> weak);

// Makes implicit conversions explicit. `u * 2.0` for a u8 `u` becomes `f32(u) * 2`: after that it does not matter
// whether a constant was written as 2 or 2.0. A sum of `u * v` into i32 becomes one of `i32(u) * i32(v)`, because an
// accumulation may compute in a wider precision than its body has (`body_type`). For an f16 `h`, `h == 0.1` becomes `h
// == f16(0.1)`: a number is rounded to the precision of what it is compared with. The bodies of programs have this
// form, so that passes, the interpreter and code generation need not know these rules.
Body typed(const Body& body, std::span<const DType> operands, Accumulator accumulator, DType target);

// The precision of the result. Constants are weak (dtype.h, rule 2), and so are entries that are computed from weak
// ones alone; a weak result is f32.
DType type_of(const Body& body, std::span<const DType> operands, std::span<const bool> weak);

// "max(a, 0) * w", with the names of operands. An entry that is read several times is printed each time.
std::string to_string(const Body& body, std::span<const std::string> operands);
// A text is not a body: says what is wrong, and where.
class BodyTextError : public SpecError {
 public:
  BodyTextError(const std::string& message, std::string problem, size_t at)
      : SpecError(message), problem_(std::move(problem)), at_(at) {}
  const std::string& problem() const { return problem_; }
  size_t at() const { return at_; }  // position in the text, from 0

 private:
  std::string problem_;
  size_t at_;
};
// The inverse of to_string. A name of an operand may be any text, such as "x[b, i]"; an operand called `position` hides
// the word `position`. Throws BodyTextError. Parentheses, calls and signs may be nested kDeepestBody deep.
inline constexpr int kDeepestBody = 200;
Body parse_body(std::string_view text, std::span<const std::string> operands);

size_t hash(const Body& body);

}  // namespace caravan::ir
