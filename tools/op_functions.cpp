// Writes what follows from the op table and is checked in or built, to stdout:
//
//   op_functions            the header of the C++ functions, one pair per op
//   op_functions --source   their definitions
//   op_functions --docs     docs/ops.md
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>

#include "caravan/base/list_text.h"
#include "caravan/ops/op.h"
#include "caravan/ops/table.h"

namespace {

using namespace caravan;
using std::string;

string function_name(const OpRow& row) { return string(row.function.empty() ? row.name : row.function); }
string enumerator(const OpRow& row) { return "Op::" + string(row.name) + (row.function.empty() ? "" : "_"); }

// "Operand a, Operand b" with before = "Operand "; "a, b" with before = "".
string operands(const OpRow& row, const string& before) {
  string out;
  for (int i = 0; i < row.arity; ++i) add_to_list(out, before + "abc"[i]);
  return out;
}

string spec_parameters(const OpRow& row) {
  return "Spec<" + std::to_string(row.arity) + "> spec, " + operands(row, "Operand ") + ", const Bindings& bindings";
}

void write_header() {
  std::cout << "// Generated from the op table by tools/op_functions.cpp; included by caravan/tensor/tensor.h.\n"
               "//\n"
               "// Without a spec an op is pointwise. With one it is the body of a sum: mul(\"... | i; ... | i => ... "
               "|\", a, b).\n"
               "#pragma once\n\nnamespace caravan {\n\n";
  for (const OpRow& row : op_rows())
    std::cout << "// " << row.doc << "\nTensor " << function_name(row) << '(' << operands(row, "Operand ") << ");\n"
              << "// The same over a spec. " << row.doc << "\nTensor " << function_name(row) << '('
              << spec_parameters(row) << " = {});\n\n";
  std::cout << "}  // namespace caravan\n";
}

void write_source() {
  std::cout << "// Generated from the op table by tools/op_functions.cpp.\n"
               "#include \"caravan/ops/table.h\"\n#include \"caravan/tensor/graph.h\"\n\nnamespace caravan {\n\n";
  for (const OpRow& row : op_rows())
    std::cout << "Tensor " << function_name(row) << '(' << operands(row, "Operand ") << ") { return pointwise("
              << enumerator(row) << ", {" << operands(row, "") << "}); }\n"
              << "Tensor " << function_name(row) << '(' << spec_parameters(row) << ") { return accumulate("
              << enumerator(row) << ", spec.syntax_ref(), {" << operands(row, "") << "}, bindings); }\n";
  std::cout << "\n}  // namespace caravan\n";
}

string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

// A cell of a Markdown table: code, with the bars of || escaped.
string code(std::string_view text) {
  if (text.empty()) return "";
  string out = "`";
  for (char c : text) out += c == '|' ? string("\\|") : string(1, c);
  return out + "`";
}

string facts(const OpRow& row) {
  string out;
  if (row.commutative) add_to_list(out, "commutative");
  if (row.associative) add_to_list(out, "associative");
  if (row.idempotent) add_to_list(out, "idempotent");
  if (row.neutral) add_to_list(out, "neutral " + number(*row.neutral));
  if (row.monotone != 0) add_to_list(out, row.monotone > 0 ? "nondecreasing in a" : "nonincreasing in a");
  if (row.zero_preserving) add_to_list(out, "keeps 0");
  switch (row.result) {
    case ResultType::same: break;
    case ResultType::real: add_to_list(out, "gives a float"); break;
    case ResultType::logic: add_to_list(out, "gives bool"); break;
    case ResultType::select: add_to_list(out, "has the precision of b and c"); break;
  }
  return out;
}

string checked_interval(const OpRow& row) {
  string out;
  for (int i = 0; i < row.arity; ++i) {
    const CheckDomain& domain = row.domain[size_t(i)];
    add_to_list(out, string(1, "abc"[i]) + " in [" + number(domain.low) + ", " + number(domain.high) + "]");
  }
  for (const std::optional<double>& kink : row.avoid)
    if (kink) add_to_list(out, "not near a = " + number(*kink));
  if (row.avoid_ties) add_to_list(out, "not near equal operands");
  if (row.avoid_integers)
    add_to_list(out, row.arity == 2 ? "not near a / b a multiple of 1/2" : "not near multiples of 1/2");
  return out;
}

void write_docs() {
  std::cout << R"(# Ops and accumulators

Generated from `caravan/ops/table.h` by `tools/op_functions.cpp --docs`; change the row, not this page.

## Promotion

Every engine (the interpreter, compiled code, `jit`, exported C) reads these rules from one function, `type_of` in `caravan/ops/op.h`.

1. The order is bool < u8 < i32 < i64 < f16, bf16 < f32 < f64; the higher one wins; f16 with bf16 gives f32.
2. A C++ number is weak: it takes the tensor's precision. One with a fraction, or written as a double (`2.0`), against an integer tensor gives f32. Two such numbers give f32.
3. Functions of the reals of an integer give f32. Arithmetic on bool gives i32.
4. Comparisons and logic give bool. A sum or product of bool or u8 elements gives i32, and its terms are computed in at least the result's precision. A mean of integers is f32, and so is its sum.
5. `cast` converts: to an integer by truncation towards zero (NaN gives 0, out of range saturates), to bool by `!= 0`, to a float by round-to-nearest-even.
6. A number that the chosen precision cannot hold is refused where it is written.

Integer arithmetic wraps (u8 modulo 256, i32 and i64 in two's complement). f16 and bf16 are computed in f32 and rounded where a tensor is stored. A number that is compared with a
float tensor is first rounded to its precision; one that is compared with integers is compared exactly. The largest element of no element is the lowest value of the precision: `-inf`, 0 for bool and u8.

`u` and `v` are bytes, `i` is i32, `b` bool, `h` f16:

| Expression | Computed in | For example |
|---|---|---|
| `u + v`, `u * 2` | u8 | 200 + 100 is 44 |
| `u * 2.0`, `u - 128.0`, `where(b, u, -1.0)`, `max(u, -1.0)` | f32 | 255 * 2.0 is 510 |
| `i * 1000000`, `i * 1e6` | i32, f32 | 50000 * 1e6 is 5e10 |
| `u / v`, `sqrt(u)` | f32 | 1 / 2 is 0.5 |
| `b + b`, `sum(u)`, `sum(b)` | i32 | |
| `dot(u, v)`, `einsum("i; i =>", u, v)` | i32 | 255 * 255 counts 65025 |
| `sum(u * v)` | u8, then i32 | `u * v` is a tensor of bytes: 255 * 255 counts 1 |
| `mean(u)`, `mean(i)`, `mean(b)` | f32 | |
| `largest(u)`, `largest(b)` | u8, bool | |
| `u == 300.0`, `u < 0.5` | exactly | no byte is 300 |
| `h * 0.1`, `h == 0.1` | f32, f16 | 0.1 as f16 is equal to 0.1 |

## Ops

The pullback of an operand is what it receives when the result `y` receives `g`. In C, `T` is the type of the computation; where integers are spelled differently, that follows in brackets.
The last column is the interval from which the gradient checks draw.

Compiled f32 code gives 0 where the result of `exp` or `exp2` would be denormal (below 1.2e-38), and so does what is made of them: `sigmoid`, `silu` and `softplus` far below 0. (Arithmetic with denormal numbers is
many times slower on most processors, and the tails of a softmax would be full of them.) `expm1`, `pow` and all functions in f64 round them as any other. `sin`, `cos` and `tan` have an error of at most 2.5 units in the last
place for arguments up to 1.6e6 (f32) and 1e9 (f64); beyond that the absolute error of `sin` and `cos` grows by 1.2e-16 times the argument, 6e-8 at 5e8 in f32.

| Name | Arity | Meaning | C | Pullbacks | Facts | Checked |
|---|---|---|---|---|---|---|
)";
  for (const OpRow& row : op_rows()) {
    string pullbacks;
    for (int i = 0; i < row.arity; ++i) pullbacks += (i ? "; " : "") + code(row.pullback[size_t(i)]);
    std::cout << "| " << code(row.name) << (row.infix.empty() ? "" : " " + code(row.infix))
              << (row.function.empty() ? "" : " (in C++ " + code(row.function) + ")") << " | " << row.arity << " | "
              << row.doc << " | " << code(row.c) << (row.c_integer.empty() ? "" : " (" + code(row.c_integer) + ")")
              << " | " << pullbacks << " | " << facts(row) << " | " << checked_interval(row) << " |\n";
  }
  std::cout << R"(
## Accumulators

`y[L(i)] += body(i)` and its like. What a point's operands receive is the gradient, of `chain` (the pullback of the body with the result's cotangent), `body`, `position` and the
auxiliaries `first` and `second`, which accumulate over the same relation.

| Name | Symbol | Meaning | Neutral | Index tensor in the write map | Auxiliaries | Gradient | Second derivative |
|---|---|---|---|---|---|---|---|
)";
  for (const AccumulatorRow& row : accumulator_rows()) {
    string auxiliaries;
    for (const AccumulatorRow::Auxiliary& auxiliary : row.auxiliaries)
      if (!auxiliary.accumulator.empty())
        add_to_list(auxiliaries, string(auxiliary.accumulator) + " of " + code(auxiliary.body));
    std::cout << "| " << code(row.name) << " | " << code(row.symbol) << " | " << row.doc << " | " << number(row.neutral)
              << " | " << (row.indexed_write ? "yes" : "no") << " | " << auxiliaries << " | " << code(row.gradient)
              << " | " << (row.refuse_second.empty() ? "yes" : "refused: " + string(row.refuse_second)) << " |\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (argc > 2 || (!mode.empty() && mode != "--source" && mode != "--docs")) {
    std::cerr << "usage: op_functions [--source | --docs]\n";
    return 2;
  }
  if (mode == "--source")
    write_source();
  else if (mode == "--docs")
    write_docs();
  else
    write_header();
}
