// The notation's syntax tree and its parser, which also runs inside the C++ compiler on literal specs.
//
//     spec     := shape (';' shape)* '=>' shape
//     shape    := [row '|'] [row '->'] row                 an omitted row is closed and empty
//     row      := axes [[','] ellipsis [','] axes]
//     axes     := [axis (',' axis)* [',']]
//     ellipsis := '...' | '..' NAME '..'
//     axis     := NAME | INT | '_' | '-' NAME
//               | [S '*'] NAME [pad] ['+' INT] '+' [S '*'] NAME
//               | S '*' NAME ['+' INT]
//               | part ('^' part)+  |  NAME ('&' NAME)+
//     pad      := '<' | '<' P | '='          S, P := INT | NAME bound at the call      part := NAME | INT
//
// Two modes: with any of `, * + ^ & <` or an `=` that is not part of `=>`, names are identifiers separated by commas;
// otherwise every letter is an axis. White space means nothing.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "caravan/base/shape.h"

namespace caravan::shape {

struct Count {  // a number, or a name whose value the call gives
  int64_t number = 1;
  std::string_view name;
};

enum class Padding : uint8_t { valid, given, same };

// Plain old data throughout: the tree must be buildable inside the C++ compiler.
struct AxisSyntax {
  static constexpr int kMaxNames = 8;
  enum class Kind : uint8_t { name, index, anonymous, reversed, strided, window, parts, merged } kind = Kind::name;
  int column = 0;
  int count = 0;  // of names and numbers
  std::array<std::string_view, kMaxNames>
      names{};  // name, reversed, strided: one; window: output, kernel; parts: "" for a run
  std::array<int64_t, kMaxNames> numbers{};  // index: one; parts: the length of each run, 0 for a name
  Count stride, dilation, pad;
  int64_t offset = 0;
  Padding padding = Padding::valid;
};

struct RowSyntax {  // axes first .. first + before - 1, the ellipsis, then `after` more
  int first = 0, before = 0, after = 0;
  bool open = false;          // has an ellipsis
  std::string_view variable;  // "" for '...'
  int column = 0;
};

struct ShapeSyntax {
  RowSyntax rows[3];  // by RowKind
};

struct SpecSyntax {
  std::string_view text;
  std::vector<AxisSyntax> axes;     // of all rows, in the order of the text
  std::vector<ShapeSyntax> shapes;  // the operands', then the result's

  constexpr int operands() const { return int(shapes.size()) - 1; }
  constexpr const ShapeSyntax& result() const { return shapes.back(); }
  constexpr std::span<const AxisSyntax> before(const RowSyntax& row) const {
    return {axes.data() + row.first, size_t(row.before)};
  }
  constexpr std::span<const AxisSyntax> after(const RowSyntax& row) const {
    return {axes.data() + row.first + row.before, size_t(row.after)};
  }
};

// Throws SpecError with a caret under the column (1 is the first). Not constexpr on purpose: reaching it while a
// literal is checked makes the compiler stop and show `problem`.
[[noreturn]] void refuse_spec(std::string_view text, int column, const char* problem);

}  // namespace caravan::shape
