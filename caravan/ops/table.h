// The table of ops and the table of accumulators: a row for each enumerator, in the same order. The enumerators of ops
// are here too. Those of accumulators are in op.h, so that a source that only names accumulators does not depend on
// every row.
//
// Everything else reads the rows: printer, parser, constant folding, code generation, autodiff, documentation, the C++
// functions and the tests. A row that is not complete, or whose derivative does not compile, fails a static_assert at
// the end.
#pragma once

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

#include "caravan/ops/formula.h"
#include "caravan/ops/op.h"

namespace caravan {

// The tables are laid out by hand.
// clang-format off

enum class Op : uint8_t {
  // of one operand
  neg, abs, sign, exp, exp2, expm1, log, log2, log1p, sqrt, rsqrt, recip, square, sin, cos, tan, tanh, sigmoid, relu, erf,
  gelu, gelu_tanh, silu, softplus, floor, ceil, round, trunc, not_,
  // of two
  add, sub, mul, div, pow, max, min, mod, atan2, eq, ne, lt, le, gt, ge, and_, or_,
  // of three
  where, fma, clamp,
  end_,  // not an op: how many there are
};
inline constexpr int kOpCount = int(Op::end_);

namespace detail {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline double nan_max(double a, double b) { return a >= b || a != a ? a : b; }  // NaN wins
inline double nan_min(double a, double b) { return a <= b || a != a ? a : b; }
inline double stable_sigmoid(double a) {  // no exponential of a positive number, so no overflow
  const double e = std::exp(-std::fabs(a));
  return (a >= 0 ? 1 : e) / (1 + e);
}

// Integers modulo 2^64.
inline int64_t plus(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
inline int64_t minus(int64_t a, int64_t b) { return int64_t(uint64_t(a) - uint64_t(b)); }
inline int64_t times(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
inline int64_t integer_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;  // -2^63 % -1 would trap
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
// std::fmod is exact, and its result has the sign of a. If b has the other sign, b is added.
inline double floored_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace detail

// Pullbacks: the cotangent of an operand if that of the result y is g. Second derivatives differentiate the pullbacks
// with these same rows. So a branch that `where` does not take must be finite too: its cotangent is 0, and 0 * inf
// would be NaN.
inline constexpr OpRow kOps[] = {
    {.op = Op::neg, .name = "neg", .arity = 1, .doc = "-a.",
     .eval = [](double a, double, double) { return -a; }, .c = "(-a)",
     .integer = [](int64_t a, int64_t, int64_t) { return detail::minus(0, a); },
     .pullback = {"-g"}, .monotone = -1, .zero_preserving = true},
    {.op = Op::abs, .name = "abs", .arity = 1, .doc = "The magnitude |a|; its derivative at 0 is 0.",
     .eval = [](double a, double, double) { return std::fabs(a); }, .c = "fabs(a)", .c_integer = "(a < 0 ? -a : a)",
     .integer = [](int64_t a, int64_t, int64_t) { return a < 0 ? detail::minus(0, a) : a; },
     .pullback = {"g * sign(a)"}, .zero_preserving = true, .avoid = {0}, .idempotent = true},
    {.op = Op::sign, .name = "sign", .arity = 1, .doc = "-1, 0 or 1; NaN stays NaN.",
     .eval = [](double a, double, double) { return a > 0 ? 1 : a < 0 ? -1 : a; }, .c = "(a > 0 ? 1 : a < 0 ? -1 : a)",
     .integer = [](int64_t a, int64_t, int64_t) { return int64_t(a > 0) - int64_t(a < 0); },
     .pullback = {"0"}, .monotone = +1, .zero_preserving = true, .avoid = {0}, .idempotent = true},
    {.op = Op::exp, .name = "exp", .arity = 1, .doc = "e to the power of a.",
     .eval = [](double a, double, double) { return std::exp(a); }, .c = "exp(a)",
     .pullback = {"g * y"}, .result = ResultType::real, .monotone = +1},
    {.op = Op::exp2, .name = "exp2", .arity = 1, .doc = "2 to the power of a.",
     .eval = [](double a, double, double) { return std::exp2(a); }, .c = "exp2(a)",
     .pullback = {"g * y * 0.6931471805599453"}, .result = ResultType::real, .monotone = +1},
    {.op = Op::expm1, .name = "expm1", .arity = 1, .doc = "exp(a) - 1, precise near 0.",
     .eval = [](double a, double, double) { return std::expm1(a); }, .c = "expm1(a)",
     .pullback = {"g * (y + 1)"}, .result = ResultType::real, .monotone = +1, .zero_preserving = true},
    {.op = Op::log, .name = "log", .arity = 1, .doc = "The natural logarithm.",
     .eval = [](double a, double, double) { return std::log(a); }, .c = "log(a)",
     .pullback = {"g / a"}, .result = ResultType::real, .monotone = +1, .domain = {{{0.2, 4}}}},
    {.op = Op::log2, .name = "log2", .arity = 1, .doc = "The logarithm to base 2.",
     .eval = [](double a, double, double) { return std::log2(a); }, .c = "log2(a)",
     .pullback = {"g / (a * 0.6931471805599453)"}, .result = ResultType::real, .monotone = +1, .domain = {{{0.2, 4}}}},
    {.op = Op::log1p, .name = "log1p", .arity = 1, .doc = "log(1 + a), precise near 0.",
     .eval = [](double a, double, double) { return std::log1p(a); }, .c = "log1p(a)",
     .pullback = {"g / (1 + a)"}, .result = ResultType::real, .monotone = +1, .zero_preserving = true,
     .domain = {{{-0.8, 3}}}},
    {.op = Op::sqrt, .name = "sqrt", .arity = 1, .doc = "The square root.",
     .eval = [](double a, double, double) { return std::sqrt(a); }, .c = "sqrt(a)",
     .pullback = {"g * 0.5 / y"}, .result = ResultType::real, .monotone = +1, .zero_preserving = true,
     .domain = {{{0.2, 4}}}},
    {.op = Op::rsqrt, .name = "rsqrt", .arity = 1, .doc = "1 / sqrt(a).",
     .eval = [](double a, double, double) { return 1 / std::sqrt(a); }, .c = "(1 / sqrt(a))",
     .pullback = {"g * -0.5 * y * square(y)"}, .result = ResultType::real, .monotone = -1, .domain = {{{0.2, 4}}}},
    {.op = Op::recip, .name = "recip", .arity = 1, .doc = "1 / a.",
     .eval = [](double a, double, double) { return 1 / a; }, .c = "(1 / a)",
     .pullback = {"-g * square(y)"}, .result = ResultType::real, .domain = {{{0.3, 3}}}, .avoid = {0}},
    {.op = Op::square, .name = "square", .arity = 1, .doc = "a * a.",
     .eval = [](double a, double, double) { return a * a; }, .c = "(a * a)",
     .integer = [](int64_t a, int64_t, int64_t) { return detail::times(a, a); },
     .pullback = {"g * 2 * a"}, .zero_preserving = true},
    {.op = Op::sin, .name = "sin", .arity = 1, .doc = "The sine of a in radians.",
     .eval = [](double a, double, double) { return std::sin(a); }, .c = "sin(a)",
     .pullback = {"g * cos(a)"}, .result = ResultType::real, .zero_preserving = true},
    {.op = Op::cos, .name = "cos", .arity = 1, .doc = "The cosine of a in radians.",
     .eval = [](double a, double, double) { return std::cos(a); }, .c = "cos(a)",
     .pullback = {"-g * sin(a)"}, .result = ResultType::real},
    {.op = Op::tan, .name = "tan", .arity = 1, .doc = "The tangent of a in radians.",
     .eval = [](double a, double, double) { return std::tan(a); }, .c = "tan(a)",
     .pullback = {"g * (1 + square(y))"}, .result = ResultType::real, .zero_preserving = true, .domain = {{{-1.2, 1.2}}}},
    {.op = Op::tanh, .name = "tanh", .arity = 1, .doc = "The hyperbolic tangent.",
     .eval = [](double a, double, double) { return std::tanh(a); }, .c = "tanh(a)",
     .pullback = {"g * (1 - square(y))"}, .result = ResultType::real, .monotone = +1, .zero_preserving = true},
    {.op = Op::sigmoid, .name = "sigmoid", .arity = 1, .doc = "1 / (1 + exp(-a)), stable for both signs.",
     .eval = [](double a, double, double) { return detail::stable_sigmoid(a); },
     .c = "((a >= 0 ? 1 : exp(-fabs(a))) / (1 + exp(-fabs(a))))",
     .pullback = {"g * y * (1 - y)"}, .result = ResultType::real, .monotone = +1},
    {.op = Op::relu, .name = "relu", .arity = 1, .doc = "The larger of a and 0; its derivative at 0 is 0.",
     .eval = [](double a, double, double) { return a < 0 ? 0 : a; }, .c = "(a < 0 ? 0 : a)",
     .integer = [](int64_t a, int64_t, int64_t) { return a < 0 ? 0 : a; },
     .pullback = {"where(a > 0, g, 0)"}, .monotone = +1, .zero_preserving = true, .avoid = {0}, .idempotent = true},
    {.op = Op::erf, .name = "erf", .arity = 1, .doc = "The error function 2/sqrt(pi) * integral of exp(-t*t) from 0 to a.",
     .eval = [](double a, double, double) { return std::erf(a); }, .c = "erf(a)",
     .pullback = {"g * 1.1283791670955126 * exp(-square(a))"}, .result = ResultType::real, .monotone = +1,
     .zero_preserving = true},
    // gelu = a Phi(a), so gelu' = Phi(a) + a phi(a), Phi and phi those of the standard normal.
    {.op = Op::gelu, .name = "gelu", .arity = 1, .doc = "a times the standard normal distribution function of a, exactly.",
     .eval = [](double a, double, double) { return 0.5 * a * (1 + std::erf(a * 0.7071067811865476)); },
     .c = "((T)0.5 * a * (1 + erf(a * (T)0.7071067811865476)))",
     .pullback = {"g * (0.5 * (1 + erf(a * 0.7071067811865476)) + a * 0.3989422804014327 * exp(-0.5 * square(a)))"},
     .result = ResultType::real, .zero_preserving = true},
    // With t = tanh(u), u = k a (1 + q a^2), k = sqrt(2/pi): gelu_tanh' = (1 + t + k a (1 - t^2) (1 + 3 q a^2)) / 2.
    // The factor 1 - t^2, which vanishes for large a, comes before a^2, which overflows.
    {.op = Op::gelu_tanh, .name = "gelu_tanh", .arity = 1, .doc = "The usual approximation of gelu by tanh.",
     .eval = [](double a, double, double) { return 0.5 * a * (1 + std::tanh(0.7978845608028654 * a * (1 + 0.044715 * a * a))); },
     .c = "((T)0.5 * a * (1 + tanh((T)0.7978845608028654 * a * (1 + (T)0.044715 * a * a))))",
     .pullback = {"g * 0.5 * (1 + tanh(0.7978845608028654 * a * (1 + 0.044715 * a * a))"
                  " + 0.7978845608028654 * a * (1 - square(tanh(0.7978845608028654 * a * (1 + 0.044715 * a * a))))"
                  " + 0.134145 * (0.7978845608028654 * a * (1 - square(tanh(0.7978845608028654 * a * (1 + 0.044715 * a * a)))))"
                  " * a * a)"},
     .result = ResultType::real, .zero_preserving = true},
    {.op = Op::silu, .name = "silu", .arity = 1, .doc = "a * sigmoid(a), also called swish.",
     .eval = [](double a, double, double) { return a * detail::stable_sigmoid(a); },
     .c = "(a * ((a >= 0 ? 1 : exp(-fabs(a))) / (1 + exp(-fabs(a)))))",
     .pullback = {"g * (sigmoid(a) + y * (1 - sigmoid(a)))"}, .result = ResultType::real, .zero_preserving = true},
    {.op = Op::softplus, .name = "softplus", .arity = 1, .doc = "log(1 + exp(a)), without overflow.",
     .eval = [](double a, double, double) { return (a > 0 ? a : 0) + std::log1p(std::exp(-std::fabs(a))); },
     .c = "((a > 0 ? a : 0) + log1p(exp(-fabs(a))))",
     .pullback = {"g * sigmoid(a)"}, .result = ResultType::real, .monotone = +1},
    {.op = Op::floor, .name = "floor", .arity = 1, .doc = "The largest integer that is not above a.",
     .eval = [](double a, double, double) { return std::floor(a); }, .c = "floor(a)", .c_integer = "a",
     .integer = [](int64_t a, int64_t, int64_t) { return a; },
     .pullback = {"0"}, .monotone = +1, .zero_preserving = true, .avoid_integers = true, .idempotent = true},
    {.op = Op::ceil, .name = "ceil", .arity = 1, .doc = "The smallest integer that is not below a.",
     .eval = [](double a, double, double) { return std::ceil(a); }, .c = "ceil(a)", .c_integer = "a",
     .integer = [](int64_t a, int64_t, int64_t) { return a; },
     .pullback = {"0"}, .monotone = +1, .zero_preserving = true, .avoid_integers = true, .idempotent = true},
    {.op = Op::round, .name = "round", .arity = 1, .doc = "The nearest integer, halves to the even one.",
     .eval = [](double a, double, double) { return std::rint(a); }, .c = "rint(a)", .c_integer = "a",
     .integer = [](int64_t a, int64_t, int64_t) { return a; },
     .pullback = {"0"}, .monotone = +1, .zero_preserving = true, .avoid_integers = true, .idempotent = true},
    {.op = Op::trunc, .name = "trunc", .arity = 1, .doc = "a without its fraction.",
     .eval = [](double a, double, double) { return std::trunc(a); }, .c = "trunc(a)", .c_integer = "a",
     .integer = [](int64_t a, int64_t, int64_t) { return a; },
     .pullback = {"0"}, .monotone = +1, .zero_preserving = true, .avoid_integers = true, .idempotent = true},
    {.op = Op::not_, .name = "not", .arity = 1, .doc = "1 where a is 0, else 0.",
     .eval = [](double a, double, double) { return double(a == 0); }, .c = "(a == 0)",
     .integer = [](int64_t a, int64_t, int64_t) { return int64_t(a == 0); },
     .pullback = {"0"}, .result = ResultType::logic, .function = "logical_not", .avoid = {0}},

    {.op = Op::add, .name = "add", .arity = 2, .doc = "a + b.",
     .eval = [](double a, double b, double) { return a + b; }, .c = "(a + b)",
     .integer = [](int64_t a, int64_t b, int64_t) { return detail::plus(a, b); },
     .pullback = {"g", "g"}, .infix = "+", .commutative = true, .associative = true, .neutral = 0, .monotone = +1},
    {.op = Op::sub, .name = "sub", .arity = 2, .doc = "a - b.",
     .eval = [](double a, double b, double) { return a - b; }, .c = "(a - b)",
     .integer = [](int64_t a, int64_t b, int64_t) { return detail::minus(a, b); },
     .pullback = {"g", "-g"}, .infix = "-", .neutral = 0, .monotone = +1},
    {.op = Op::mul, .name = "mul", .arity = 2, .doc = "a * b.",
     .eval = [](double a, double b, double) { return a * b; }, .c = "(a * b)",
     .integer = [](int64_t a, int64_t b, int64_t) { return detail::times(a, b); },
     .pullback = {"g * b", "g * a"}, .infix = "*", .commutative = true, .associative = true, .neutral = 1,
     .zero_preserving = true},
    {.op = Op::div, .name = "div", .arity = 2, .doc = "a / b, of the reals: integers give f32.",
     .eval = [](double a, double b, double) { return a / b; }, .c = "(a / b)",
     .pullback = {"g / b", "-g * y / b"}, .result = ResultType::real, .infix = "/", .neutral = 1, .zero_preserving = true,
     .domain = {{{-2, 2}, {0.5, 2}}}},
    // d/da = b a^(b-1), where 0^0 has the derivative 0; d/db = a^b log a, which exists for a > 0 only and is 0 elsewhere.
    {.op = Op::pow, .name = "pow", .arity = 2, .doc = "a to the power of b; where a <= 0, b receives no gradient.",
     .eval = [](double a, double b, double) { return std::pow(a, b); }, .c = "pow(a, b)",
     .pullback = {"g * b * pow(where((a == 0) && (b == 0), 1, a), b - 1)",
                  "where(a > 0, g * pow(where(a > 0, a, 1), b) * log(where(a > 0, a, 1)), 0)"},
     .result = ResultType::real, .neutral = 1, .domain = {{{0.3, 2}, {-2, 2}}}},
    {.op = Op::max, .name = "max", .arity = 2, .doc = "The larger one; NaN wins, and the gradient of equals goes to a.",
     .eval = [](double a, double b, double) { return detail::nan_max(a, b); }, .c = "(a >= b || a != a ? a : b)",
     .c_integer = "(a >= b ? a : b)",
     .integer = [](int64_t a, int64_t b, int64_t) { return a >= b ? a : b; },
     .pullback = {"where(a >= b, g, 0)", "where(a >= b, 0, g)"}, .commutative = true, .associative = true,
     .neutral = -detail::kInfinity, .monotone = +1, .avoid_ties = true, .idempotent = true},
    {.op = Op::min, .name = "min", .arity = 2, .doc = "The smaller one; NaN wins, and the gradient of equals goes to a.",
     .eval = [](double a, double b, double) { return detail::nan_min(a, b); }, .c = "(a <= b || a != a ? a : b)",
     .c_integer = "(a <= b ? a : b)",
     .integer = [](int64_t a, int64_t b, int64_t) { return a <= b ? a : b; },
     .pullback = {"where(a <= b, g, 0)", "where(a <= b, 0, g)"}, .commutative = true, .associative = true,
     .neutral = detail::kInfinity, .monotone = +1, .avoid_ties = true, .idempotent = true},
    {.op = Op::mod, .name = "mod", .arity = 2, .doc = "a - q * b for the integer q = floor(a / b), rounded once: from 0 to b, with the sign of b. The integer modulo 0 is 0.",
     .eval = [](double a, double b, double) { return detail::floored_mod(a, b); },
     .c = "(fmod(a, b) != 0 && (fmod(a, b) < 0) != (b < 0) ? fmod(a, b) + b : fmod(a, b))",
     .c_integer = "(b == 0 || b == -1 ? 0 : a % b != 0 && (a < 0) != (b < 0) ? a % b + b : a % b)",
     .integer = [](int64_t a, int64_t b, int64_t) { return detail::integer_mod(a, b); },
     .pullback = {"g", "-g * round((a - y) / b)"}, .zero_preserving = true, .domain = {{{-3, 3}, {0.7, 2}}},
     .avoid_integers = true},
    {.op = Op::atan2, .name = "atan2", .arity = 2, .doc = "The angle of the point (b, a), from -pi to pi.",
     .eval = [](double a, double b, double) { return std::atan2(a, b); }, .c = "atan2(a, b)",
     .pullback = {"g * b / (square(a) + square(b))", "-g * a / (square(a) + square(b))"}, .result = ResultType::real,
     .domain = {{{-2, 2}, {0.3, 2}}}},
    {.op = Op::eq, .name = "eq", .arity = 2, .doc = "1 where a = b, else 0.",
     .eval = [](double a, double b, double) { return double(a == b); }, .c = "(a == b)",
     .integer = [](int64_t a, int64_t b, int64_t) { return int64_t(a == b); },
     .pullback = {"0", "0"}, .result = ResultType::logic, .infix = "==", .commutative = true, .avoid_ties = true},
    {.op = Op::ne, .name = "ne", .arity = 2, .doc = "0 where a = b, else 1.",
     .eval = [](double a, double b, double) { return double(a != b); }, .c = "(a != b)",
     .integer = [](int64_t a, int64_t b, int64_t) { return int64_t(a != b); },
     .pullback = {"0", "0"}, .result = ResultType::logic, .infix = "!=", .commutative = true, .avoid_ties = true},
    {.op = Op::lt, .name = "lt", .arity = 2, .doc = "1 where a < b, else 0.",
     .eval = [](double a, double b, double) { return double(a < b); }, .c = "(a < b)",
     .integer = [](int64_t a, int64_t b, int64_t) { return int64_t(a < b); },
     .pullback = {"0", "0"}, .result = ResultType::logic, .infix = "<", .monotone = -1, .avoid_ties = true},
    {.op = Op::le, .name = "le", .arity = 2, .doc = "1 where a <= b, else 0.",
     .eval = [](double a, double b, double) { return double(a <= b); }, .c = "(a <= b)",
     .integer = [](int64_t a, int64_t b, int64_t) { return int64_t(a <= b); },
     .pullback = {"0", "0"}, .result = ResultType::logic, .infix = "<=", .monotone = -1, .avoid_ties = true},
    {.op = Op::gt, .name = "gt", .arity = 2, .doc = "1 where a > b, else 0.",
     .eval = [](double a, double b, double) { return double(a > b); }, .c = "(a > b)",
     .integer = [](int64_t a, int64_t b, int64_t) { return int64_t(a > b); },
     .pullback = {"0", "0"}, .result = ResultType::logic, .infix = ">", .monotone = +1, .avoid_ties = true},
    {.op = Op::ge, .name = "ge", .arity = 2, .doc = "1 where a >= b, else 0.",
     .eval = [](double a, double b, double) { return double(a >= b); }, .c = "(a >= b)",
     .integer = [](int64_t a, int64_t b, int64_t) { return int64_t(a >= b); },
     .pullback = {"0", "0"}, .result = ResultType::logic, .infix = ">=", .monotone = +1, .avoid_ties = true},
    {.op = Op::and_, .name = "and", .arity = 2, .doc = "1 where neither a nor b is 0, else 0.",
     .eval = [](double a, double b, double) { return double(a != 0 && b != 0); }, .c = "(a != 0 && b != 0)",
     .integer = [](int64_t a, int64_t b, int64_t) { return int64_t(a != 0 && b != 0); },
     .pullback = {"0", "0"}, .result = ResultType::logic, .infix = "&&", .function = "logical_and", .commutative = true,
     .associative = true, .zero_preserving = true, .domain = {{{-2, 2}, {0.5, 2}}}, .avoid = {0}},
    {.op = Op::or_, .name = "or", .arity = 2, .doc = "0 where both a and b are 0, else 1.",
     .eval = [](double a, double b, double) { return double(a != 0 || b != 0); }, .c = "(a != 0 || b != 0)",
     .integer = [](int64_t a, int64_t b, int64_t) { return int64_t(a != 0 || b != 0); },
     .pullback = {"0", "0"}, .result = ResultType::logic, .infix = "||", .function = "logical_or", .commutative = true,
     .associative = true, .domain = {{{-2, 2}, {0.5, 2}}}, .avoid = {0}},

    {.op = Op::where, .name = "where", .arity = 3, .doc = "b where a is not 0, else c.",
     .eval = [](double a, double b, double c) { return a != 0 ? b : c; }, .c = "(a != 0 ? b : c)",
     .integer = [](int64_t a, int64_t b, int64_t c) { return a != 0 ? b : c; },
     .pullback = {"0", "where(a, g, 0)", "where(a, 0, g)"}, .result = ResultType::select, .avoid = {0}},
    {.op = Op::fma, .name = "fma", .arity = 3, .doc = "a * b + c, rounded once.",
     .eval = [](double a, double b, double c) { return std::fma(a, b, c); }, .c = "fma(a, b, c)", .c_integer = "(a * b + c)",
     .integer = [](int64_t a, int64_t b, int64_t c) { return detail::plus(detail::times(a, b), c); },
     .pullback = {"g * b", "g * a", "g"}},
    {.op = Op::clamp, .name = "clamp", .arity = 3, .doc = "min(max(a, b), c): a kept between b and c.",
     .eval = [](double a, double b, double c) { return detail::nan_min(detail::nan_max(a, b), c); },
     .c = "(a < b || b != b ? (b > c || c != c ? c : b) : (a > c || c != c ? c : a))",
     .c_integer = "(a < b ? (b > c ? c : b) : (a > c ? c : a))",
     .integer = [](int64_t a, int64_t b, int64_t c) { return a < b ? (b > c ? c : b) : (a > c ? c : a); },
     .pullback = {"where((a >= b) && (a <= c), g, 0)", "where((a < b) && (b <= c), g, 0)", "where(max(a, b) > c, g, 0)"},
     .monotone = +1, .domain = {{{-2, 2}, {-1.5, -0.5}, {0.5, 1.5}}}, .avoid_ties = true},
};

inline constexpr AccumulatorRow kAccumulators[] = {
    {.accumulator = Accumulator::add, .name = "add", .doc = "The sum.", .symbol = "+=", .neutral = 0,
     .combine = [](double total, double value) { return total + value; }, .op = Op::add, .indexed_write = true,
     .gradient = "chain"},
    // d/d body_k of a product is the product of the others: first / body_k where no factor is 0; the product of all
    // others where body_k is the only 0; and 0 where another factor is 0. first multiplies the factors other than 0,
    // second counts the zeros.
    {.accumulator = Accumulator::mul, .name = "mul", .doc = "The product.", .symbol = "*=", .neutral = 1,
     .combine = [](double total, double value) { return total * value; }, .op = Op::mul,
     .auxiliaries = {{{"mul", "where(body == 0, 1, body)"}, {"add", "where(body == 0, 1, 0)"}}},
     .gradient = "where(second == 0, chain * (first / where(body == 0, 1, body)),"
                 " where((second == 1) && (body == 0), chain * first, 0))",
     .refuse_second = "the gradient of a product over an axis selects by which factors are 0, so that its own derivative would"
                      " be wrong there; write the product as exp(sum(log(x))) where all factors are positive"},
    {.accumulator = Accumulator::max, .name = "max", .doc = "The largest value; NaN wins, and the first of equals gets the gradient.",
     .symbol = "max=", .neutral = -detail::kInfinity, .combine = [](double total, double value) { return detail::nan_max(total, value); },
     .op = Op::max, .indexed_write = true, .auxiliaries = {{{"argmax", "body"}}},
     .gradient = "where(position == first, chain, 0)"},
    {.accumulator = Accumulator::min, .name = "min", .doc = "The smallest value; NaN wins, and the first of equals gets the gradient.",
     .symbol = "min=", .neutral = detail::kInfinity, .combine = [](double total, double value) { return detail::nan_min(total, value); },
     .op = Op::min, .indexed_write = true, .auxiliaries = {{{"argmin", "body"}}},
     .gradient = "where(position == first, chain, 0)"},
    {.accumulator = Accumulator::or_, .name = "or", .doc = "1 where any value is not 0.", .symbol = "||=", .neutral = 0,
     .combine = [](double total, double value) { return double(total != 0 || value != 0); }, .op = Op::or_, .gradient = "0"},
    {.accumulator = Accumulator::and_, .name = "and", .doc = "1 where no value is 0.", .symbol = "&&=", .neutral = 1,
     .combine = [](double total, double value) { return double(total != 0 && value != 0); }, .op = Op::and_, .gradient = "0"},
    {.accumulator = Accumulator::argmax, .name = "argmax", .doc = "The position of the first largest value, -1 where there is none.",
     .symbol = "argmax=", .neutral = -1, .gradient = "0"},
    {.accumulator = Accumulator::argmin, .name = "argmin", .doc = "The position of the first smallest value, -1 where there is none.",
     .symbol = "argmin=", .neutral = -1, .gradient = "0"},
};

// The formulas of the rows, compiled.
inline constexpr std::string_view kPullbackVariables[] = {"g", "a", "b", "c", "y"};
inline constexpr std::string_view kGradientVariables[] = {"chain", "body", "position", "first", "second"};
inline constexpr std::string_view kAuxiliaryVariables[] = {"body"};

namespace detail {

struct AccumulatorFormulas {
  CompiledFormula gradient{};
  std::array<CompiledFormula, 2> auxiliaries{};
};

constexpr auto compile_pullbacks() {
  std::array<std::array<CompiledFormula, 3>, kOpCount> out{};
  for (int i = 0; i < kOpCount && i < int(std::size(kOps)); ++i)
    for (size_t k = 0; k < 3; ++k)
      if (!kOps[i].pullback[k].empty()) out[size_t(i)][k] = compile_formula(kOps[i].pullback[k], kPullbackVariables, kOps);
  return out;
}

constexpr auto compile_accumulators() {
  std::array<AccumulatorFormulas, kAccumulatorCount> out{};
  for (int i = 0; i < kAccumulatorCount && i < int(std::size(kAccumulators)); ++i) {
    out[size_t(i)].gradient = compile_formula(kAccumulators[i].gradient, kGradientVariables, kOps);
    for (size_t k = 0; k < 2; ++k)
      if (!kAccumulators[i].auxiliaries[k].body.empty())
        out[size_t(i)].auxiliaries[k] = compile_formula(kAccumulators[i].auxiliaries[k].body, kAuxiliaryVariables, kOps);
  }
  return out;
}

}  // namespace detail

inline constexpr auto kPullbacks = detail::compile_pullbacks();
inline constexpr auto kAccumulatorFormulas = detail::compile_accumulators();

// An incomplete row does not compile. Each check finds the first row that fails it, or kNoRow.
namespace detail {

inline constexpr int kNoRow = -1;

template <class Rows, class Fails>
constexpr int first_row(const Rows& rows, Fails fails) {
  for (int i = 0; i < int(std::size(rows)); ++i)
    if (fails(i)) return i;
  return kNoRow;
}

static_assert(int(std::size(kOps)) == kOpCount, "table.h: an Op has no row, or a row too many: kOps needs one row per enumerator");
static_assert(first_row(kOps, [](int i) { return int(kOps[i].op) != i; }) == kNoRow,
              "table.h: the rows of kOps must be in the order of enum class Op");
static_assert(first_row(kOps, [](int i) { return kOps[i].name.empty() || kOps[i].arity < 1 || kOps[i].arity > 3; }) == kNoRow,
              "table.h: an op's row lacks .name, or its .arity is not 1, 2 or 3");
static_assert(first_row(kOps, [](int i) { return kOps[i].doc.empty() || kOps[i].doc.back() != '.'; }) == kNoRow,
              "table.h: an op's row lacks .doc, one sentence that ends with a full stop");
static_assert(first_row(kOps, [](int i) { return !kOps[i].eval; }) == kNoRow, "table.h: an op's row lacks .eval");
static_assert(first_row(kOps, [](int i) { return bool(kOps[i].integer) == (kOps[i].result == ResultType::real); }) == kNoRow,
              "table.h: an op's row needs .integer, unless its .result is real");
static_assert(first_row(kOps, [](int i) { return kOps[i].c.empty(); }) == kNoRow, "table.h: an op's row lacks .c, its C spelling");
static_assert(first_row(kOps, [](int i) {
                for (int k = 0; k < 3; ++k)
                  if (kOps[i].pullback[size_t(k)].empty() == (k < kOps[i].arity)) return true;
                return false;
              }) == kNoRow,
              "table.h: an op's row needs one .pullback text per operand, \"0\" where nothing flows");
static_assert(first_row(kOps, [](int i) {
                for (const CompiledFormula& compiled : kPullbacks[size_t(i)])
                  if (compiled.error) return true;
                return false;
              }) == kNoRow,
              "table.h: a .pullback text does not compile: kPullbacks[row][operand].error says why, .at where");
static_assert(first_row(kOps, [](int i) {
                for (const CompiledFormula& compiled : kPullbacks[size_t(i)])
                  for (int e = 0; e < compiled.formula.size; ++e) {
                    const Formula::Entry& entry = compiled.formula.entries[size_t(e)];
                    if (entry.leaf == Formula::Leaf::variable && entry.variable >= 1 && entry.variable <= 3 &&
                        entry.variable > kOps[i].arity)
                      return true;
                  }
                return false;
              }) == kNoRow,
              "table.h: a .pullback text reads an operand that the op does not have");
static_assert(first_row(kOps, [](int i) {
                for (int j = 0; j < i; ++j)
                  if (kOps[j].name == kOps[i].name || (!kOps[i].infix.empty() && kOps[j].infix == kOps[i].infix)) return true;
                return false;
              }) == kNoRow,
              "table.h: two ops have the same .name or .infix");

static_assert(int(std::size(kAccumulators)) == kAccumulatorCount,
              "table.h: an Accumulator has no row, or a row too many: kAccumulators needs one row per enumerator");
static_assert(first_row(kAccumulators, [](int i) { return int(kAccumulators[i].accumulator) != i; }) == kNoRow,
              "table.h: the rows of kAccumulators must be in the order of enum class Accumulator");
static_assert(first_row(kAccumulators, [](int i) {
                const AccumulatorRow& row = kAccumulators[i];
                return row.name.empty() || row.doc.empty() || row.symbol.empty() || row.gradient.empty();
              }) == kNoRow,
              "table.h: an accumulator's row lacks .name, .doc, .symbol or .gradient");
static_assert(first_row(kAccumulators, [](int i) {
                return bool(kAccumulators[i].combine) != kAccumulators[i].op.has_value();
              }) == kNoRow,
              "table.h: an accumulator's row has .combine and .op, or neither where it keeps a position");
static_assert(first_row(kAccumulators, [](int i) {
                const AccumulatorFormulas& formulas = kAccumulatorFormulas[size_t(i)];
                return formulas.gradient.error || formulas.auxiliaries[0].error || formulas.auxiliaries[1].error;
              }) == kNoRow,
              "table.h: a .gradient or auxiliary text does not compile: kAccumulatorFormulas[row] says why and where");
static_assert(first_row(kAccumulators, [](int i) {
                for (const AccumulatorRow::Auxiliary& auxiliary : kAccumulators[i].auxiliaries) {
                  bool found = auxiliary.accumulator.empty() && auxiliary.body.empty();
                  for (const AccumulatorRow& row : kAccumulators) found = found || (row.name == auxiliary.accumulator && !auxiliary.body.empty());
                  if (!found) return true;
                }
                return false;
              }) == kNoRow,
              "table.h: an auxiliary names an accumulator that does not exist, or has no body");
static_assert(first_row(kAccumulators, [](int i) {
                for (int j = 0; j < i; ++j)
                  if (kAccumulators[j].name == kAccumulators[i].name) return true;
                return false;
              }) == kNoRow,
              "table.h: two accumulators have the same .name");

}  // namespace detail

}  // namespace caravan
