// The C spelling of an op's row, read at compile time.
//
//   spelling := as in C:  ?:  ||  &&  == !=  < <= > >=  + -  * / %  unary -  (T)
//   operand  := number | a | b | c | function ( spelling, ... ) | ( spelling )
//
// T is the type of the computation. Functions have the names that <math.h> has for double. The printer decides which
// function is called for a type and in a language.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "caravan/ops/op.h"

namespace caravan {

// The precedence of an expression in C.
enum class Level : uint8_t { none, choice, or_, and_, equal, compare, add, multiply, unary, atom };

struct Spelling {
  enum class Kind : uint8_t { operand, number, minus, cast, infix, choice, call };
  struct Entry {
    Kind kind{};
    Level level = Level::atom;
    uint8_t args[3]{};        // earlier entries; of an operand: which one
    uint8_t count = 0;        // how many args
    std::string_view text{};  // the digits, the infix operator, or the name of the function
  };
  std::array<Entry, 40> entries{};  // each reads earlier ones; the last is the whole
  uint8_t size = 0;
  uint8_t mentions[3]{};        // how often each operand occurs
  bool conditional = false;     // may an operand not be evaluated: ?:, &&, ||
  const char* error = nullptr;  // what is wrong with the text, or null
  size_t at = 0;                // and where
};

// Functions whose result IEEE 754 fixes to the bit, so that every C library gives the same.
inline constexpr std::string_view kExactFunctions[] = {"fabs", "sqrt", "floor", "ceil", "rint", "trunc", "fma", "fmod"};
constexpr bool is_exact(std::string_view function) {
  for (std::string_view name : kExactFunctions)
    if (name == function) return true;
  return false;
}

namespace detail {

class SpellingCompiler {
 public:
  constexpr explicit SpellingCompiler(std::string_view text) : text_(text) {}

  constexpr Spelling run() {
    choice();
    if (!out_.error && !skip_blanks()) fail("expected an operator");
    return out_;
  }

 private:
  struct Token {
    Level level = Level::none;
    size_t length = 0;
  };
  constexpr Token token() const {
    const char first = peek(), second = at_ + 1 < text_.size() ? text_[at_ + 1] : ' ';
    switch (first) {
      case '|': return second == '|' ? Token{Level::or_, 2} : Token{};
      case '&': return second == '&' ? Token{Level::and_, 2} : Token{};
      case '=':
      case '!': return second == '=' ? Token{Level::equal, 2} : Token{};
      case '<':
      case '>': return second == '=' ? Token{Level::compare, 2} : Token{Level::compare, 1};
      case '+':
      case '-': return {Level::add, 1};
      case '*':
      case '/':
      case '%': return {Level::multiply, 1};
      default: return {};
    }
  }

  constexpr uint8_t choice() {
    const uint8_t condition = infix(Level::none);
    skip_blanks();
    if (peek() != '?') return condition;
    ++at_;
    const uint8_t yes = choice();
    expect(':');
    const uint8_t no = out_.error ? uint8_t(0) : choice();
    out_.conditional = true;
    return add({Spelling::Kind::choice, Level::choice, {condition, yes, no}, 3});
  }
  // Parses an operand and all infix operators after it whose precedence is higher than `level`.
  constexpr uint8_t infix(Level level) {
    uint8_t left = unary();
    while (!out_.error) {
      skip_blanks();
      const Token next = token();
      if (next.level <= level) break;
      const std::string_view sign = text_.substr(at_, next.length);
      at_ += next.length;
      const uint8_t right = infix(next.level);
      if (next.level == Level::or_ || next.level == Level::and_) out_.conditional = true;
      left = add({Spelling::Kind::infix, next.level, {left, right}, 2, sign});
    }
    return left;
  }
  constexpr uint8_t unary() {
    skip_blanks();
    if (peek() == '-') {
      ++at_;
      return add({Spelling::Kind::minus, Level::unary, {unary()}, 1});
    }
    if (text_.substr(at_).starts_with("(T)")) {
      at_ += 3;
      return add({Spelling::Kind::cast, Level::unary, {unary()}, 1});
    }
    return primary();
  }
  constexpr uint8_t primary() {
    skip_blanks();
    if (peek() == '(') {
      ++at_;
      const uint8_t inner = choice();
      expect(')');
      return inner;
    }
    const size_t start = at_;
    if (is_digit(peek())) {
      while (is_digit(peek()) || peek() == '.') ++at_;
      if (peek() == 'e') {
        ++at_;
        if (peek() == '-' || peek() == '+') ++at_;
        while (is_digit(peek())) ++at_;
      }
      return add({Spelling::Kind::number, Level::atom, {}, 0, text_.substr(start, at_ - start)});
    }
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    const std::string_view word = text_.substr(start, at_ - start);
    if (word.empty()) return fail("expected a number, an operand, a function or `(`");
    if (peek() == '(') return call(word);
    if (word.size() != 1 || word[0] < 'a' || word[0] > 'c') return fail("operands are a, b and c");
    const uint8_t which = uint8_t(word[0] - 'a');
    ++out_.mentions[which];
    return add({Spelling::Kind::operand, Level::atom, {which}});
  }
  constexpr uint8_t call(std::string_view function) {
    Spelling::Entry entry{Spelling::Kind::call, Level::atom, {}, 0, function};
    do {
      ++at_;  // ( or ,
      if (entry.count == 3) return fail("a function has at most three arguments");
      entry.args[entry.count++] = choice();
      skip_blanks();
    } while (!out_.error && peek() == ',');
    expect(')');
    return add(entry);
  }

  constexpr uint8_t add(const Spelling::Entry& entry) {
    if (out_.error) return 0;
    if (out_.size == out_.entries.size()) return fail("the spelling is too long for Spelling::entries");
    out_.entries[out_.size] = entry;
    return out_.size++;
  }
  constexpr bool skip_blanks() {  // returns whether the text is at its end
    while (peek() == ' ' && at_ < text_.size()) ++at_;
    return at_ == text_.size();
  }
  constexpr char peek() const { return at_ < text_.size() ? text_[at_] : ' '; }
  constexpr void expect(char c) {
    skip_blanks();
    if (peek() == c)
      ++at_;
    else
      fail(c == ')' ? "expected `)`" : "expected `:`");
  }
  constexpr uint8_t fail(const char* what) {  // the first failure is kept
    if (!out_.error) out_.error = what, out_.at = at_;
    return 0;
  }
  static constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  std::string_view text_;
  size_t at_ = 0;
  Spelling out_{};
};

}  // namespace detail

constexpr Spelling compile_spelling(std::string_view text) { return detail::SpellingCompiler(text).run(); }

// Does the spelling call only functions for which `known` holds?
template <class Known>
constexpr bool calls_only(const Spelling& spelling, Known known) {
  for (size_t i = 0; i < spelling.size; ++i)
    if (spelling.entries[i].kind == Spelling::Kind::call && !known(spelling.entries[i].text)) return false;
  return true;
}

// The first row whose spelling does not parse, or names an operand that the op does not have; -1 if there is none.
constexpr int row_without_spelling(std::span<const OpRow> rows) {
  for (size_t i = 0; i < rows.size(); ++i)
    for (std::string_view text : {rows[i].c, rows[i].c_integer.empty() ? rows[i].c : rows[i].c_integer}) {
      const Spelling spelling = compile_spelling(text);
      if (spelling.error) return int(i);
      for (int k = rows[i].arity; k < 3; ++k)
        if (spelling.mentions[k] > 0) return int(i);
    }
  return -1;
}

// The spelling of the op for floats, or for integers.
const Spelling& spelling(Op op, bool integers);

}  // namespace caravan
