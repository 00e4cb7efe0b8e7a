// Which functions the spelling of an op may call in generated code: those of prelude/math.h, which has NAME_f32 and
// NAME_f64 of each, and those that IEEE 754 fixes to the bit (kExactFunctions). Of any other one the C library would
// decide the bits, and compilers fold its calls with yet another rounding.
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

// Every "static inline TYPE caravan_NAME_TYPE(" of a text. The text is read once: compilers limit such work.
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

// Is it one of the prelude, for both types of float?
constexpr bool in_prelude(std::string_view function) {
  int types = 0;
  for (const FunctionName& known : kMathFunctions)
    if (known.name == function && (known.type == "f32" || known.type == "f64")) ++types;
  return types == 2;
}

// The first of the rows whose spelling calls a function that generated code does not have; -1: there is none.
constexpr int row_without_function(std::span<const OpRow> rows) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (!calls_only(compile_spelling(rows[i].c), [](std::string_view f) { return is_exact(f) || in_prelude(f); }))
      return int(i);
  return -1;
}

}  // namespace caravan::codegen
