// The parser of specs. Everything is constexpr, so a literal spec is parsed and checked when the C++ is compiled.
#pragma once

#include "caravan/shape/ast.h"

namespace caravan::shape {

class SpecParser {
 public:
  constexpr explicit SpecParser(std::string_view text) : text_(text), letters_(!needs_commas(text)) {}

  constexpr SpecSyntax parse() {
    spec_.text = text_;
    shape();
    while (take(";")) shape();
    if (!take("=>")) refuse("expected `=>` and the result's shape");
    shape();
    if (!at_end()) refuse("unexpected text after the result's shape");
    return std::move(spec_);
  }

 private:
  static constexpr bool needs_commas(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      char c = text[i];
      if (c == ',' || c == '*' || c == '+' || c == '^' || c == '&' || c == '<') return true;
      if (c == '=' && (i + 1 == text.size() || text[i + 1] != '>')) return true;
    }
    return false;
  }
  static constexpr bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  static constexpr bool digit(char c) { return c >= '0' && c <= '9'; }

  // Never returns: refuse_spec throws, or stops the compiler. (A constexpr function must have a path that is constant.)
  constexpr void refuse(const char* problem) { refuse_at(int(at_) + 1, problem); }
  constexpr void refuse_at(int column, const char* problem) {
    if (problem) refuse_spec(text_, column, problem);
  }

  constexpr void blank() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  constexpr bool at_end() { return blank(), at_ == text_.size(); }
  constexpr bool next_is(std::string_view token) { return blank(), text_.substr(at_).starts_with(token); }
  constexpr bool take(std::string_view token) {
    if (!next_is(token)) return false;
    at_ += token.size();
    return true;
  }
  constexpr bool next_is_name() { return blank(), at_ < text_.size() && letter(text_[at_]); }
  constexpr bool next_is_number() { return blank(), at_ < text_.size() && digit(text_[at_]); }
  constexpr int column() { return blank(), int(at_) + 1; }

  constexpr std::string_view name(bool identifier) {
    if (!next_is_name()) refuse("expected the name of an axis");
    size_t from = at_++;
    if (identifier)
      while (at_ < text_.size() && (letter(text_[at_]) || digit(text_[at_]) || text_[at_] == '_')) ++at_;
    return text_.substr(from, at_ - from);
  }
  constexpr int64_t number() {
    if (!next_is_number()) refuse("expected a number");
    int64_t value = 0;
    for (; at_ < text_.size() && digit(text_[at_]); ++at_) {
      value = value * 10 + (text_[at_] - '0');
      if (value > 1'000'000'000) refuse("a number this large is not an index or a size");
    }
    return value;
  }
  constexpr Count count() {
    if (next_is_number()) return {number(), {}};
    return {1, name(true)};
  }

  constexpr void shape() {
    ShapeSyntax out;
    RowSyntax first = row();
    if (take("|")) {
      out.rows[int(RowKind::batch)] = first;
      first = row();
    }
    if (take("->")) {
      out.rows[int(RowKind::input)] = first;
      first = row();
    }
    out.rows[int(RowKind::output)] = first;
    if (next_is("|")) refuse("`|` stands once in a shape, before `->`: batch | input -> output");
    if (next_is("->")) refuse("`->` stands once in a shape: batch | input -> output");
    spec_.shapes.push_back(out);
  }

  constexpr bool row_ends() { return at_end() || next_is(";") || next_is("|") || next_is("->") || next_is("=>"); }

  constexpr RowSyntax row() {
    RowSyntax out;
    out.column = column();
    out.first = int(spec_.axes.size());
    bool separated = true;  // may an axis follow directly?
    bool after_number = false;
    while (!row_ends()) {
      if (next_is("..")) {
        if (out.open) refuse("at most one ellipsis in a row");
        out.open = true;
        if (!take("...")) {
          take("..");
          out.variable = name(true);
          if (!take("..")) refuse("a row variable is written `..name..`");
        }
        take(",");
        separated = true, after_number = false;
        continue;
      }
      if (next_is(",")) refuse("expected an axis before `,`");
      if (!separated) refuse("expected `,` between axes (this spec has names of many letters)");
      if (letters_ && after_number && next_is_number())
        refuse("white space means nothing, so this would be one number; write `,` between two indices");
      after_number = next_is_number();
      spec_.axes.push_back(axis());
      ++(out.open ? out.after : out.before);
      separated = letters_ || take(",");
    }
    return out;
  }

  constexpr AxisSyntax axis() {
    AxisSyntax out;
    out.column = column();
    if (take("_")) {
      out.kind = AxisSyntax::Kind::anonymous;
      return out;
    }
    if (take("-")) {
      out.kind = AxisSyntax::Kind::reversed;
      push(out, name(!letters_), 0);
      return out;
    }
    if (letters_) {
      if (next_is_number()) return index(out);
      if (!next_is_name()) refuse("expected an axis: a letter, a number, `_`, `-name` or an ellipsis");
      push(out, name(false), 0);
      return out;
    }
    if (next_is_number()) {
      int64_t value = number();
      if (next_is("*")) return strided_or_window(out, {value, {}});
      if (next_is("^")) return parts(out, {}, value);
      out.kind = AxisSyntax::Kind::index;
      push(out, {}, value);
      return out;
    }
    if (!next_is_name()) refuse("expected an axis: a name, a number, `_`, `-name` or an ellipsis");
    std::string_view first = name(true);
    if (next_is("*")) return strided_or_window(out, {1, first});
    if (next_is("^")) return parts(out, first, 0);
    if (next_is("&")) return merged(out, first);
    if (next_is("<") || next_is("+") || (next_is("=") && !next_is("=>"))) return window(out, first);
    push(out, first, 0);
    return out;
  }

  constexpr AxisSyntax index(AxisSyntax out) {
    out.kind = AxisSyntax::Kind::index;
    push(out, {}, number());
    return out;
  }

  constexpr AxisSyntax strided_or_window(AxisSyntax out, Count stride) {
    take("*");
    if (stride.name.empty() && stride.number < 1) refuse_at(out.column, "a stride is at least 1");
    out.stride = stride;
    return window(out, name(true));
  }

  // After [S '*'] NAME: a window if a second name follows, otherwise strided iteration.
  constexpr AxisSyntax window(AxisSyntax out, std::string_view first) {
    push(out, first, 0);
    bool padded = false;
    if (take("<")) {
      padded = true;
      if (next_is_number() || next_is_name()) out.pad = count(), out.padding = Padding::given;
    } else if (next_is("=") && !next_is("=>")) {
      take("=");
      padded = true;
      out.padding = Padding::same;
    }
    out.kind = AxisSyntax::Kind::strided;
    bool strided = out.stride.name.size() || out.stride.number != 1 || text_[size_t(out.column) - 1] == '1';
    if (!take("+")) {
      if (padded) refuse("a padded window needs `+ kernel`");
      return out;
    }
    bool offset = false;
    if (next_is_number()) {
      int64_t value = number();
      if (next_is("*")) {
        take("*");
        return kernel(out, {value, {}}, name(true));
      }
      out.offset = value;
      offset = true;
      if (!take("+")) {
        if (padded) refuse("a padded window needs `+ kernel`");
        if (!strided) refuse_at(out.column, "an offset alone is written `1*name+offset`");
        return out;
      }
    }
    if (offset && next_is_number()) {
      Count dilation = count();
      if (!take("*")) refuse("a window has one offset");
      return kernel(out, dilation, name(true));
    }
    if (next_is_number()) {
      Count dilation = count();
      if (!take("*")) refuse("expected `*` and the kernel's name");
      return kernel(out, dilation, name(true));
    }
    std::string_view second = name(true);
    if (take("*")) return kernel(out, {1, second}, name(true));
    return kernel(out, {1, {}}, second);
  }
  constexpr AxisSyntax kernel(AxisSyntax out, Count dilation, std::string_view second) {
    if (dilation.name.empty() && dilation.number < 1) refuse_at(out.column, "a dilation is at least 1");
    if (second == out.names[0]) refuse_at(out.column, "the two names of a window must differ");
    out.kind = AxisSyntax::Kind::window;
    out.dilation = dilation;
    push(out, second, 0);
    return out;
  }

  constexpr AxisSyntax parts(AxisSyntax out, std::string_view first, int64_t run) {
    out.kind = AxisSyntax::Kind::parts;
    push(out, first, run);
    while (take("^")) {
      if (next_is_number())
        push(out, {}, number());
      else
        push(out, name(true), 0);
    }
    bool named = false;
    for (int i = 0; i < out.count; ++i) {
      named = named || !out.names[i].empty();
      for (int j = 0; j < i; ++j)
        if (!out.names[i].empty() && out.names[i] == out.names[j])
          refuse_at(out.column, "a name stands once in a concatenation");
    }
    if (!named) refuse_at(out.column, "a concatenation needs at least one named part");
    return out;
  }

  constexpr AxisSyntax merged(AxisSyntax out, std::string_view first) {
    out.kind = AxisSyntax::Kind::merged;
    push(out, first, 0);
    while (take("&")) push(out, name(true), 0);
    return out;
  }

  constexpr void push(AxisSyntax& axis, std::string_view name, int64_t number) {
    if (axis.count == AxisSyntax::kMaxNames) refuse_at(axis.column, "at most 8 names in one axis");
    axis.names[axis.count] = name;
    axis.numbers[axis.count++] = number;
  }

  std::string_view text_;
  bool letters_;
  size_t at_ = 0;
  SpecSyntax spec_;
};

// What can be refused without knowing the call: names used in two ways, rows and axes that nothing gives.
constexpr void check_spec(const SpecSyntax& spec) {
  for (const ShapeSyntax& shape : spec.shapes)
    for (const RowSyntax& row : shape.rows) {
      if (!row.open || row.variable.empty()) continue;
      for (const AxisSyntax& axis : spec.axes)
        for (int i = 0; i < axis.count; ++i)
          if (axis.names[i] == row.variable)
            refuse_spec(spec.text, axis.column, "this name is used as an axis and as a row variable");
    }
  for (int k = 0; k < 3; ++k) {
    const RowSyntax& row = spec.result().rows[k];
    if (!row.open) continue;
    bool given = false;
    for (int s = 0; s < spec.operands(); ++s)
      for (int j = 0; j < 3; ++j) {
        const RowSyntax& other = spec.shapes[s].rows[j];
        if (other.open && other.variable == row.variable && (j == k || !row.variable.empty())) given = true;
      }
    if (!given) refuse_spec(spec.text, row.column, "the result has a row variable that no operand has");
  }
  for (const RowSyntax& row : spec.result().rows)
    for (int i = 0; i < row.before + row.after; ++i)
      if (const AxisSyntax& axis = spec.axes[row.first + i]; axis.kind == AxisSyntax::Kind::anonymous)
        refuse_spec(spec.text, axis.column,
                    "`_` is reduced away, so it cannot stand in the result; write 0 for a kept axis");
}

constexpr SpecSyntax parse_spec(std::string_view text) {
  SpecSyntax spec = SpecParser(text).parse();
  check_spec(spec);
  return spec;
}

}  // namespace caravan::shape
