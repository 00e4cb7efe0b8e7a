// The compiler from the text of a derivative row to a Formula, at compile time.
//
//   formula := comparison and logic as in C:  ||  &&  == !=  < <= > >=  + -  * /  unary -
//   operand := number | variable | name-of-an-op ( formula, ... ) | ( formula )
//
// The op rows say which tokens are infix operators and which names are functions. Nothing is folded. Equal entries are
// stored once. A minus directly before a number belongs to the number.
#pragma once

#include <bit>
#include <span>
#include <string_view>

#include "caravan/ops/op.h"

namespace caravan {

struct CompiledFormula {
  Formula formula{};
  const char* error = nullptr;  // what is wrong, or null
  int at = 0;                   // where: the offset in the text
};

namespace detail {

class FormulaCompiler {
 public:
  constexpr FormulaCompiler(std::string_view text, std::span<const std::string_view> variables,
                            std::span<const OpRow> ops)
      : text_(text), variables_(variables), ops_(ops) {}

  constexpr CompiledFormula run() {
    const int result = infix(0);
    if (!out_.error && !skip_blanks()) fail("expected an operator");
    if (!out_.error && result != out_.formula.size - 1) fail("the result is not the last entry");
    return out_;
  }

 private:
  // The infix token at the reading position: its precedence and its length. Precedence 0 if there is none.
  struct Token {
    int level = 0;
    size_t length = 0;
  };
  constexpr Token token() const {
    const char first = at_ < text_.size() ? text_[at_] : ' ';
    const char second = at_ + 1 < text_.size() ? text_[at_ + 1] : ' ';
    switch (first) {
      case '|': return second == '|' ? Token{1, 2} : Token{};
      case '&': return second == '&' ? Token{2, 2} : Token{};
      case '=':
      case '!': return second == '=' ? Token{3, 2} : Token{};
      case '<':
      case '>': return second == '=' ? Token{4, 2} : Token{4, 1};
      case '+':
      case '-': return {5, 1};
      case '*':
      case '/': return {6, 1};
      default: return {};
    }
  }

  // Parses an operand and all infix tokens after it whose precedence is higher than `level`.
  constexpr int infix(int level) {
    int left = unary();
    while (!out_.error) {
      skip_blanks();
      const Token next = token();
      if (next.level <= level) break;
      int op = -1;
      for (int i = 0; i < int(ops_.size()); ++i)
        if (ops_[size_t(i)].infix.size() == next.length && ops_[size_t(i)].infix == text_.substr(at_, next.length))
          op = i;
      if (op < 0) return fail("no op is written with this symbol");
      at_ += next.length;
      const int right = infix(next.level);
      left = apply(ops_[size_t(op)].op, left, right, 0);
    }
    return left;
  }

  constexpr int unary() {
    skip_blanks();
    if (!peek('-')) return primary();
    ++at_;
    if (at_ < text_.size() && is_digit(text_[at_])) return constant(-number());
    const int operand = unary();
    for (const OpRow& row : ops_)
      if (row.name == "neg") return apply(row.op, operand, 0, 0);
    return fail("there is no op `neg`");
  }

  constexpr int primary() {
    skip_blanks();
    if (at_ >= text_.size()) return fail("expected an operand, found the end");
    if (peek('(')) {
      ++at_;
      const int inner = infix(0);
      expect(')');
      return inner;
    }
    if (is_digit(text_[at_])) return constant(number());
    if (!is_letter(text_[at_])) return fail("expected a number, a variable, a function or `(`");

    const size_t start = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string_view word = text_.substr(start, at_ - start);
    skip_blanks();
    if (peek('(')) return call(word);
    for (size_t i = 0; i < variables_.size(); ++i)
      if (variables_[i] == word) {
        Formula::Entry entry;
        entry.leaf = Formula::Leaf::variable;
        entry.variable = uint8_t(i);
        return intern(entry);
      }
    at_ = start;
    return fail("unknown variable");
  }

  constexpr int call(std::string_view word) {
    int op = -1;
    for (int i = 0; i < int(ops_.size()); ++i)
      if (ops_[size_t(i)].name.size() == word.size() && ops_[size_t(i)].name == word) op = i;
    if (op < 0) return fail("unknown function");
    const int arity = ops_[size_t(op)].arity;
    ++at_;  // (
    int args[3] = {0, 0, 0};
    for (int i = 0; i < arity && i < 3; ++i) {
      if (i > 0) expect(',');
      if (out_.error) return 0;
      args[i] = infix(0);
    }
    expect(')');
    return apply(ops_[size_t(op)].op, args[0], args[1], args[2]);
  }

  // Digits, a fraction, an exponent. The digits are exact in 64 bits and one division (or multiplication) by an exact
  // power of ten follows, in long double; so the double is the nearest one but for rare halfway cases.
  constexpr double number() {
    unsigned long long digits = 0;
    int exponent = 0, count = 0;
    bool fraction = false;
    for (; at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.'); ++at_) {
      if (text_[at_] == '.') {
        if (fraction) {
          fail("a second decimal point");
          return 0;
        }
        fraction = true;
        continue;
      }
      digits = digits * 10 + unsigned(text_[at_] - '0');
      if (fraction) --exponent;
      if (++count > 19) {
        fail("a number may have 19 digits");
        return 0;
      }
    }
    if (at_ < text_.size() && text_[at_] == 'e') {
      ++at_;
      const bool negative = peek('-');
      if (negative || peek('+')) ++at_;
      if (at_ >= text_.size() || !is_digit(text_[at_])) {
        fail("expected the digits of an exponent");
        return 0;
      }
      int written = 0;
      for (; at_ < text_.size() && is_digit(text_[at_]) && written < 1000; ++at_)
        written = written * 10 + (text_[at_] - '0');
      exponent += negative ? -written : written;
    }
    if (exponent > 300 || exponent < -300) {
      fail("an exponent lies within -300 .. 300");
      return 0;
    }
    long double power = 1;
    for (int i = 0; i < (exponent < 0 ? -exponent : exponent); ++i) power *= 10;
    return double(exponent < 0 ? (long double)(digits) / power : (long double)(digits)*power);
  }

  constexpr int constant(double value) {
    Formula::Entry entry;
    entry.leaf = Formula::Leaf::constant;
    entry.constant = value;
    return intern(entry);
  }

  constexpr int apply(Op op, int a, int b, int c) {
    Formula::Entry entry;
    entry.op = op;
    entry.args[0] = uint8_t(a);
    entry.args[1] = uint8_t(b);
    entry.args[2] = uint8_t(c);
    return intern(entry);
  }

  constexpr int intern(const Formula::Entry& entry) {
    if (out_.error) return 0;
    Formula& formula = out_.formula;
    for (int i = 0; i < formula.size; ++i)
      if (equal(formula.entries[size_t(i)], entry)) return i;
    if (formula.size == formula.entries.size()) return fail("the formula is too long for Formula::entries");
    formula.entries[formula.size] = entry;
    return formula.size++;
  }

  static constexpr bool equal(const Formula::Entry& a, const Formula::Entry& b) {
    return a.leaf == b.leaf && a.op == b.op && a.args[0] == b.args[0] && a.args[1] == b.args[1] &&
           a.args[2] == b.args[2] && a.variable == b.variable &&
           std::bit_cast<uint64_t>(a.constant) == std::bit_cast<uint64_t>(b.constant);
  }

  constexpr bool skip_blanks() {  // returns whether the text is at its end
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ == text_.size();
  }
  constexpr bool peek(char c) const { return at_ < text_.size() && text_[at_] == c; }
  constexpr void expect(char c) {
    skip_blanks();
    if (peek(c))
      ++at_;
    else
      fail(c == ')' ? "expected `)`" : "expected `,`");
  }
  constexpr int fail(const char* what) {  // the first failure is kept
    if (!out_.error) {
      out_.error = what;
      out_.at = int(at_);
    }
    return 0;
  }
  static constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  std::string_view text_;
  std::span<const std::string_view> variables_;
  std::span<const OpRow> ops_;
  size_t at_ = 0;
  CompiledFormula out_{};
};

}  // namespace detail

constexpr CompiledFormula compile_formula(std::string_view text, std::span<const std::string_view> variables,
                                          std::span<const OpRow> ops) {
  return detail::FormulaCompiler(text, variables, ops).run();
}

}  // namespace caravan
