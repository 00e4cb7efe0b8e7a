// Bodies as text and back. One table of precedences serves both directions.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/ir/body.h"
#include "caravan/ir/text.h"
#include "caravan/ops/table.h"

namespace caravan::ir {

namespace {

constexpr int kUnary = 7;  // -x, and negative numbers
constexpr int kAtom = 9;   // names, numbers, calls, parentheses

// The precedence of an infix op; 0 if it is not an infix op. All are left-associative.
int precedence(std::string_view infix) {
  if (infix == "||" || infix == "or" || infix == "|") return 1;
  if (infix == "&&" || infix == "and" || infix == "&") return 2;
  if (infix == "==" || infix == "!=") return 3;
  if (infix == "<" || infix == "<=" || infix == ">" || infix == ">=") return 4;
  if (infix == "+" || infix == "-") return 5;
  if (infix == "*" || infix == "/" || infix == "%") return 6;
  if (infix == "**" || infix == "^") return 8;
  return 0;
}

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

class Parser {
 public:
  Parser(std::string_view text, std::span<const std::string> operands) : text_(text), operands_(operands) {}

  Body parse() {
    const int result = expression(1);
    blank();
    if (at_ != text_.size()) refuse("expected an operator");
    body_.finish(result);
    return std::move(body_);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    const std::string rest = at_ < text_.size() ? " before `" + std::string(text_.substr(at_)) + "`" : " at the end";
    throw BodyTextError("expression \"" + std::string(text_) + "\": " + problem + rest + ", column " +
                            std::to_string(at_ + 1) + "; the operands are " +
                            (operands_.empty() ? "none" : joined(operands_)) + ".",
                        problem, at_);
  }

  void blank() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  // Does the text continue with `token`, and, if it is a word, with the whole word?
  bool sees(std::string_view token) const {
    if (token.empty() || text_.substr(at_, token.size()) != token) return false;
    const size_t end = at_ + token.size();
    return !is_word(token.back()) || end == text_.size() || !is_word(text_[end]);
  }

  bool take(std::string_view token) {
    blank();
    if (!sees(token)) return false;
    at_ += token.size();
    return true;
  }

  const OpRow* infix_here() {
    blank();
    const OpRow* longest = nullptr;
    for (const OpRow& row : op_rows())
      if (precedence(row.infix) > 0 && sees(row.infix) && (!longest || row.infix.size() > longest->infix.size()))
        longest = &row;
    return longest;
  }

  int expression(int least) {
    int left = unary();
    while (const OpRow* row = infix_here()) {
      const int binds = precedence(row->infix);
      if (binds < least) break;
      at_ += row->infix.size();
      const int right = expression(binds + 1);
      left = body_.apply(row->op, std::array{left, right});
    }
    return left;
  }

  // Parses a nested expression. All recursion of this parser goes through this function, which limits its depth, so
  // that no text can exhaust the stack.
  int nested(int least) {
    if (depth_ == kDeepestBody)
      refuse("more than " + std::to_string(kDeepestBody) +
             " parentheses, calls and signs are nested; compute a part of it by itself");
    ++depth_;
    const int out = expression(least);
    --depth_;
    return out;
  }

  int unary() {
    if (!take("-")) return atom();
    return body_.apply(Op::neg, std::array{nested(kUnary)});
  }

  int atom() {
    blank();
    if (take("(")) {
      const int inner = nested(1);
      if (!take(")")) refuse("expected `)`");
      return inner;
    }
    size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    if (end < text_.size() && text_[end] == '(' && !word.empty()) return call(word, end);

    int operand = -1;  // the longest name with which the text continues
    for (size_t k = 0; k < operands_.size(); ++k)
      if (sees(operands_[k]) && (operand < 0 || operands_[k].size() > operands_[size_t(operand)].size()))
        operand = int(k);
    if (operand >= 0) {
      at_ += operands_[size_t(operand)].size();
      return body_.load(operand);
    }
    if (take("position")) return body_.position();
    if (take("inf")) return body_.constant(std::numeric_limits<double>::infinity());
    if (take("nan")) return body_.constant(std::numeric_limits<double>::quiet_NaN());
    double value = 0;
    auto [after, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) refuse("expected a number, an operand or a function");
    const std::string_view written(text_.data() + at_, size_t(after - (text_.data() + at_)));
    at_ += written.size();
    return body_.constant(value, written.find_first_of(".eE") == written.npos ? DType::i32 : DType::f32);
  }

  int call(std::string_view word, size_t parenthesis) {
    const std::optional<DType> dtype = find_dtype(word);
    const std::optional<Op> op = find_op(word);
    if (!dtype && !op) refuse("there is no op `" + std::string(word) + "`");
    at_ = parenthesis + 1;
    std::vector<int> args;
    do args.push_back(nested(1));
    while (take(","));
    if (!take(")")) refuse("expected `,` or `)`");
    const size_t arity = op ? size_t(row(*op).arity) : 1;
    if (args.size() != arity)
      refuse("`" + std::string(word) + "` takes " + std::to_string(arity) + " operands, not " +
             std::to_string(args.size()));
    return op ? body_.apply(*op, args) : body_.cast(*dtype, args[0]);
  }

  std::string_view text_;
  std::span<const std::string> operands_;
  size_t at_ = 0;
  int depth_ = 0;  // recursion depth of nested()
  Body body_;
};

}  // namespace

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

namespace {

// The constant as it was written: 2 or 2.0, and an integer with all its digits.
std::string constant_text(const Scalar& constant) {
  std::string text = number_text(constant.constant);
  const bool has_point = text.find_first_of(".en") != text.npos;  // 0.5, 1e+30, inf, nan
  if (is_float(constant.dtype)) return has_point ? text : text + ".0";
  if (!has_point) return text;
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.0f", constant.constant);
  return digits;
}

}  // namespace

std::string to_string(const Body& body, std::span<const std::string> operands) {
  struct Piece {
    std::string text;
    int binds;
  };
  std::vector<Piece> pieces;
  // The text of an argument, in parentheses if its precedence is lower than `binds`.
  auto at_least = [&](int entry, int binds) {
    const Piece& piece = pieces[size_t(entry)];
    return piece.binds < binds ? "(" + piece.text + ")" : piece.text;
  };
  for (const Scalar& entry : body.entries()) {
    switch (entry.kind) {
      case Scalar::Kind::constant:
        pieces.push_back({constant_text(entry), std::signbit(entry.constant) ? kUnary : kAtom});
        break;
      case Scalar::Kind::load: {
        const size_t k = size_t(entry.operand);
        pieces.push_back({k < operands.size() ? operands[k] : "operand" + std::to_string(k), kAtom});
        break;
      }
      case Scalar::Kind::position: pieces.push_back({"position", kAtom}); break;
      case Scalar::Kind::cast:
        pieces.push_back({std::string(name(entry.dtype)) + "(" + pieces[size_t(entry.args[0])].text + ")", kAtom});
        break;
      case Scalar::Kind::apply: {
        const OpRow& facts = row(entry.op);
        if (const int binds = precedence(facts.infix); binds > 0 && facts.arity == 2) {
          pieces.push_back({at_least(entry.args[0], binds) + " " + std::string(facts.infix) + " " +
                                at_least(entry.args[1], binds + 1),
                            binds});
        } else if (entry.op == Op::neg) {
          pieces.push_back({"-" + at_least(entry.args[0], kUnary), kUnary});
        } else {
          std::string arguments;
          for (int k = 0; k < facts.arity; ++k) add_to_list(arguments, pieces[size_t(entry.args[k])].text);
          pieces.push_back({std::string(facts.name) + "(" + arguments + ")", kAtom});
        }
        break;
      }
    }
  }
  return pieces.empty() ? "" : pieces.back().text;
}

Body parse_body(std::string_view text, std::span<const std::string> operands) { return Parser(text, operands).parse(); }

}  // namespace caravan::ir
