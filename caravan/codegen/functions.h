// Which functions the spelling of an op may call in generated code: those of prelude/math.h, which has NAME_f32 and
// NAME_f64 for each, and those whose result IEEE 754 fixes to the bit (kExactFunctions). The result of any other
// function would depend on the C library, and compilers fold its calls with yet another rounding.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "caravan/codegen/prelude.h"
#include "caravan/ops/spelling.h"

namespace caravan::codegen {

struct FunctionName {
  std::string_view name;  // "exp"
  std::string_view type;  // "f32"
};

namespace detail {

// Finds every "static inline TYPE caravan_NAME_TYPE(" in a text. It is a single pass over the text, because compilers
// limit the number of steps of a constant evaluation.
constexpr auto functions_of(std::string_view text) {
  constexpr std::string_view start = "static inline ", ours = "caravan_";
  std::array<FunctionName, 96> out{};
  size_t n = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (!line.starts_with(start)) continue;
    line.remove_prefix(line.find(' ', start.size()) + 1);
    if (!line.starts_with(ours)) continue;
    const std::string_view name = line.substr(ours.size(), line.find('(') - ours.size());
    const size_t type = name.rfind('_');
    if (type != name.npos) out.at(n++) = {name.substr(0, type), name.substr(type + 1)};
  }
  return out;
}

}  // namespace detail

inline constexpr auto kMathFunctions = detail::functions_of(kMathPrelude);

// Does the prelude have this function for both f32 and f64?
constexpr bool in_prelude(std::string_view function) {
  int types = 0;
  for (const FunctionName& known : kMathFunctions)
    if (known.name == function && (known.type == "f32" || known.type == "f64")) ++types;
  return types == 2;
}

// A function that generated code does not have, and the first op whose spelling calls it. Its name is empty if there is
// none.
struct FunctionLetters {
  char all[24] = {};
};
struct UnknownCall {
  Op op{};
  FunctionLetters function{};
};
constexpr UnknownCall unknown_call(std::span<const OpRow> rows) {
  UnknownCall out;
  for (const OpRow& row : rows) {
    const auto known = [&](std::string_view f) {
      if (is_exact(f) || in_prelude(f)) return true;
      out.op = row.op;
      f.copy(out.function.all, sizeof out.function.all - 1);
      return false;
    };
    if (!calls_only(compile_spelling(row.c), known)) return out;
  }
  return out;
}
// What compilers print where an op calls an unknown function: the arguments name both. (Clang 14 prints the function's
// letters as numbers.)
template <Op op, FunctionLetters function>
struct OpCallsKnownFunctions {
  static_assert(
      function.all[0] == 0,
      "table.h: the C of this op calls a function that prelude/math.h does not have as caravan_NAME_f32 and _f64");
};

}  // namespace caravan::codegen
