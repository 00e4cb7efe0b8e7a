// Words of generated C: types, names, numbers, comments.
#pragma once

#include <set>
#include <string>

#include "caravan/ops/dtype.h"

namespace caravan::codegen {

// The type of an element in memory. f16 and bf16 exist only in memory, as bits; a register that holds one is a float.
const char* c_type(DType dtype);
// The number as a literal of this precision. In an integer, a value out of range wraps, infinities become its bounds,
// and NaN becomes 0.
std::string literal(double value, DType dtype);

// The text as an identifier that has no other meaning: not a keyword of C, a macro, a function that kernels call, or a
// register.
std::string identifier(const std::string& text);
// The name, or the name with the first number that makes it unique; adds it to `taken`.
std::string unique(std::set<std::string>& taken, const std::string& name);

std::string comment(std::string text);
// A function head or a call, broken at commas into lines of at most 120 columns.
std::string wrapped(const std::string& text);

}  // namespace caravan::codegen
