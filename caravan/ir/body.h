// The body of an accumulation: a scalar expression over what is read at one point.
//
// A list of entries in which each reads earlier ones and the last is the result; equal entries are one entry.
// Meaning: entries have no effects, so they may be evaluated in any order, duplicated or skipped. `where` does not
// protect its branches: both have values, one is taken. Arithmetic is that of the entry's precision, without
// contraction; integers wrap (i32, i64, u8). `types_of` says which precision that is, for every engine: a constant has
// the precision of what it meets, everything else its own.
#pragma once

#include <cstdint>
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

class Body {
 public:
  // Each returns the entry's number.
  int constant(double value);  // written as an integer if it is one
  int constant(double value, DType written);
  int load(int operand);
  int position();  // the linear position of this point in the box of the iterators, as f64/i64
  int apply(Op op, std::span<const int> args);
  int cast(DType dtype, int arg);
  // An operand that op(args...) equals to the bit, for NaN, infinities and -0 too, or -1: x * 1, x - 0, where(c, x, x),
  // --x. Provided that the operand has the precision of op(args...).
  int equal_operand(Op op, std::span<const int> args) const;
  // The formula with variable k replaced by entry variables[k] (-1 where the formula does not name it). Formulas are
  // gradients, over floats, so they are simplified: constants fold, and so does what equals an operand.
  int instantiate(const Formula& formula, std::span<const int> variables);
  void finish(int result);  // drops what the result does not need; the result becomes the last entry

  const std::vector<Scalar>& entries() const { return entries_; }
  int result() const { return int(entries_.size()) - 1; }
  bool is_constant(double value) const;  // is the whole body this number, to the bit (0 is not -0)
  bool reads(int operand) const;
  bool uses_position() const;
  bool operator==(const Body&) const = default;

  // The same body with operand k renamed to renamed[k].
  Body with_operands(std::span<const int> renamed) const;
  // The same body with the position read from an operand.
  Body with_position(int operand) const;
  // The same body with the operands that have a value replaced by it, which was written so.
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
  int apply_to_floats(Op op, std::span<const int> args);  // apply, simplified
  std::vector<Scalar> entries_;
};

double evaluate(const Body& body, std::span<const double> operands, double position);

// What the result's cotangent becomes at one operand: the chain rule over the entries, with each op's pullback row.
// Returns the entry (in `into`, which starts as a copy of `body`'s entries) or -1 if nothing flows.
// A cast between floats lets the cotangent through, cast back; any other stops it. `operands` gives the precisions that
// this needs; without them operands count as floats and a cotangent is cast back only to what the body itself cast to.
int pull_back(Body& into, const Body& body, int operand, int cotangent, std::span<const DType> operands = {});

struct EntryType {
  DType dtype{};
  bool weak = false;  // takes the precision of what it meets
  DType compute{};    // of an op: operands are converted to it (but for the condition of `where`)
};
// The precision of every entry.
std::vector<EntryType> types_of(const Body& body, std::span<const DType> operands, std::span<const bool> weak);

// A body as it was written becomes one that means the same and whose constants need no memory of how they were written:
// `u * 2.0` of bytes is `f32(u) * 2`. And what an accumulation computes in more than the body's own precision
// (`body_type`) is cast there: a sum of `u * v` into i32 is one of `i32(u) * i32(v)`. Comparisons with a number round
// it to the precision of what it is compared with: `h == 0.1` of f16 is `h == f16(0.1)`. Programs are made of such
// bodies: no pass and no engine has to know these rules.
Body typed(const Body& body, std::span<const DType> operands, Accumulator accumulator, DType target);

// Constants are weak (dtype.h, rule 2), and so is what is computed from weak entries alone; a weak result is f32.
DType type_of(const Body& body, std::span<const DType> operands, std::span<const bool> weak);

// "max(a, 0) * w"; operands by their names. A shared entry is written wherever it is read.
std::string to_string(const Body& body, std::span<const std::string> operands);
// A text that is not a body: what is wrong, and where.
class BodyTextError : public SpecError {
 public:
  BodyTextError(const std::string& message, std::string problem, size_t at)
      : SpecError(message), problem_(std::move(problem)), at_(at) {}
  const std::string& problem() const { return problem_; }
  size_t at() const { return at_; }  // of the text's characters, from 0

 private:
  std::string problem_;
  size_t at_;
};
// The inverse, over the names given (any text: "x[b, i]" is a name; a name before the word `position`). Throws
// BodyTextError. Parentheses, calls and signs may be nested kDeepestBody deep.
inline constexpr int kDeepestBody = 200;
Body parse_body(std::string_view text, std::span<const std::string> operands);

size_t hash(const Body& body);

}  // namespace caravan::ir
