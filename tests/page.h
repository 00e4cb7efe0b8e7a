// What the tests made from a page of docs/ (tools/page_test.awk) stand on: `EXPRESSION;  // => TEXT` becomes shows(ctx,
// EXPRESSION, TEXT).
#pragma once

#include <caravan/caravan.h>
#include <caravan/data/csv.h>
#include <caravan/data/digits.h>
#include <caravan/data/idx.h>
#include <caravan/data/loader.h>
#include <caravan/data/npy.h>
#include <caravan/data/safetensors.h>
#include <caravan/data/sequences.h>
#include <caravan/data/tokenizer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <span>
#include <sstream>
#include <thread>

#include "this_device.h"

namespace caravan {

inline ContextOptions page_context() { return here(1); }

template <class Function>
std::string refusal(const Function& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "(nothing was refused)";
}

template <class T>
std::string shown(Context&, const T& value, const std::string&) {
  std::ostringstream out;
  out << std::boolalpha << value;
  return out.str();
}
// A tensor shows its value, or its shape where the text starts so.
inline std::string shown(Context& ctx, const Tensor& tensor, const std::string& text) {
  const Array value = ctx.eval(tensor);
  return text.starts_with("shape ") ? "shape " + to_string(value.shape()) : to_string(value);
}

// `...` in a text stands for anything.
inline bool matches(std::string_view actual, std::string_view text) {
  const size_t gap = text.find("...");
  if (gap == text.npos) return actual == text;
  if (!actual.starts_with(text.substr(0, gap))) return false;
  for (size_t from = gap; from <= actual.size(); ++from)
    if (matches(actual.substr(from), text.substr(gap + 3))) return true;
  return false;
}

// Compared as one line.
template <class T>
void shows(Context& ctx, const T& value, const std::string& text, const char* file = __builtin_FILE(),
           int line = __builtin_LINE()) {
  std::istringstream lines(shown(ctx, value, text));
  std::string actual, next;
  while (std::getline(lines >> std::ws, next)) actual += (actual.empty() ? "" : " ") + next;
  if (!matches(actual, text))
    ADD_FAILURE_AT(file, line) << "the page says:  " << text << "\nit comes out:   " << actual;
}

}  // namespace caravan

using namespace caravan;
using namespace caravan::nn;
using namespace caravan::data;
