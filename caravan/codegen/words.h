// Words of generated C: types, names, numbers, comments.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "caravan/ops/dtype.h"

namespace caravan::codegen {

// Of an element; narrow floats are only stored, registers of them are float.
const char* c_type(DType dtype);
// The number as an operand of this precision. What an integer cannot hold wraps, infinities are its bounds, NaN is 0.
std::string literal(double value, DType dtype);

// A name that means nothing else in the text: not a word of C, a macro, a function that kernels call, or a register.
std::string identifier(const std::string& text);
// The name, or the name with the first number that makes it a new one.
std::string unique(std::set<std::string>& taken, const std::string& name);

std::string comment(std::string text);
// A head or a call, in lines of at most 120 columns where commas allow it.
std::string wrapped(const std::string& text);
std::string joined(const std::vector<std::string>& list);  // with commas

}  // namespace caravan::codegen
