#include "caravan/codegen/words.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "caravan/codegen/functions.h"
#include "caravan/ir/text.h"

namespace caravan::codegen {

namespace {

// Is it the C library's name of a function of the prelude, such as exp or expf?
bool in_library(std::string_view name) {
  return in_prelude(name) || (name.ends_with('f') && in_prelude(name.substr(0, name.size() - 1)));
}

}  // namespace

const char* c_type(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return "uint8_t";
    case DType::i32: return "int32_t";
    case DType::i64: return "int64_t";
    case DType::f16:
    case DType::bf16: return "uint16_t";
    case DType::f32: return "float";
    case DType::f64: return "double";
  }
  return "?";
}

std::string literal(double value, DType dtype) {
  if (is_float(dtype)) {
    value = convert(dtype, value);
    if (std::isnan(value)) return "NAN";
    if (std::isinf(value)) return value < 0 ? "-INFINITY" : "INFINITY";
    char shortest[32];
    std::string text = dtype == DType::f64
                           ? ir::number_text(value)
                           : std::string(shortest, std::to_chars(shortest, std::end(shortest), float(value)).ptr);
    if (text.find_first_of(".e") == text.npos) text += ".0";
    return dtype == DType::f64 ? text : text + "f";
  }
  if (dtype == DType::boolean) return value != 0 ? "1" : "0";
  if (std::isfinite(value) && !can_hold(dtype, std::trunc(value))) {
    const double modulus = std::ldexp(1.0, 8 * bytes(dtype));
    value = std::fmod(std::trunc(value), modulus);
    if (value < 0) value += modulus;
    if (value > largest(dtype)) value -= modulus;
  }
  if (dtype != DType::i64) return std::to_string(int64_t(convert(dtype, value)));
  if (value <= -0x1p63) return "INT64_MIN";
  if (value >= 0x1p63) return "INT64_MAX";
  return std::isnan(value) ? "0LL" : std::to_string(int64_t(value)) + "LL";
}

std::string identifier(const std::string& text) {
  std::string out;
  for (char c : text) out += isalnum(uint8_t(c)) ? c : '_';
  if (out.empty() || out[0] == '_' || isdigit(uint8_t(out[0]))) out = "v" + out;
  static const std::set<std::string> kTaken = {
      "auto",     "break",  "case",   "char",   "const",           "continue", "default",  "do",
      "double",   "else",   "enum",   "extern", "float",           "for",      "goto",     "if",
      "inline",   "int",    "long",   "return", "register",        "restrict", "short",    "signed",
      "sizeof",   "static", "struct", "switch", "typedef",         "union",    "unsigned", "void",
      "volatile", "while",  "asm",    "typeof", "linux",           "unix",     "i386",     "main",
      "memcpy",   "fabs",   "fabsf",  "floor",  "floorf",          "ceil",     "ceilf",    "rint",
      "rintf",    "trunc",  "truncf", "sqrt",   "sqrtf",           "fma",      "fmaf",     "fmod",
      "fmodf",    "from",   "to",     "seed",   "math_errhandling"};
  // Names of the form that the printer gives to registers and random streams.
  auto numbered = [&](std::string_view stem) {
    return out.size() > stem.size() && out.starts_with(stem) &&
           out.find_first_not_of("0123456789", stem.size()) == out.npos;
  };
  const bool is_macro =
      out.size() > 1 && std::none_of(out.begin(), out.end(), [](char c) { return islower(uint8_t(c)); });
  return kTaken.count(out) || in_library(out) || numbered("r") || numbered("stream") || is_macro ||
                 out.ends_with("_t") || out.starts_with("caravan")
             ? out + "_"
             : out;
}
std::string comment(std::string text) {
  for (const char* ends : {"*/", "/*", "??"})
    for (size_t at; (at = text.find(ends)) != text.npos;) text.insert(at + 1, " ");
  return "/* " + text + " */";
}

std::string wrapped(const std::string& text) {
  constexpr size_t columns = 120;
  if (text.size() <= columns) return text;
  const size_t indent = text.find_first_not_of(' '), comma = text.rfind(", ", columns - 1);
  if (comma == text.npos || comma < indent) return text;
  return text.substr(0, comma + 1) + "\n" +
         wrapped(std::string(indent < 4 ? indent + 4 : indent, ' ') + text.substr(comma + 2));
}

std::string unique(std::set<std::string>& taken, const std::string& name) {
  std::string out = name;
  for (int n = 2; !taken.insert(out).second; ++n) out = name + "_" + std::to_string(n);
  return out;
}

}  // namespace caravan::codegen
