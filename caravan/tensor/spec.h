// A spec as an argument: checked when the C++ is compiled if it is a literal, when it is called otherwise.
#pragma once

#include <string>

#include "caravan/base/source.h"
#include "caravan/shape/parse.h"

namespace caravan {

// A spec made at run time: einsum(spec(text), a, b).
struct RuntimeSpec {
  std::string text;  // the spec
  Source where;      // the line of the call
};
// Makes a spec of a text that is not a literal.
inline RuntimeSpec spec(std::string text, Source where = Source::here()) { return {std::move(text), where}; }

// Inside: a spec that someone else keeps.
struct SpecRef {
  std::string_view text;  // the spec
  Source where;           // the line of the call
};

// Inside: throws SpecError where the text is no spec, or one for another number of operands.
void check_operand_count(SpecRef spec, int operands);

// A spec for a given number of operands (-1: any). Lives no longer than the call it is an argument of.
template <int Operands>
class Spec {
 public:
  template <size_t N>
  consteval Spec(const char (&text)[N], const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : text_(text, N - 1), where_{file, line} {
    if (shape::parse_spec(text_).operands() != Operands && Operands >= 0)
      shape::refuse_spec(text_, 1, "the number of shapes before `=>` is not the number of operands");
  }
  Spec(const RuntimeSpec& spec) : text_(spec.text), where_(spec.where) { check_operand_count(syntax_ref(), Operands); }

  SpecRef syntax_ref() const { return {text_, Source::here(where_)}; }  // Inside: its text and line

 private:
  std::string_view text_;
  Source where_;
};

}  // namespace caravan
