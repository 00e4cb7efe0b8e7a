// The base class of all printers of kernels: the dump's (print.cpp) and those of languages (codegen/). It prints index
// terms, elements and indented lines, and walks over statements. A derived printer decides names and the form of each
// statement.
#pragma once

#include <string>

#include "caravan/loop/loop.h"
#include "caravan/ops/spelling.h"

namespace caravan::loop {

// A text with the precedence of its outermost operator, which decides whether it needs parentheses as an operand.
struct Expression {
  std::string text;
  Level level = Level::atom;
};
// The expression as an operand of an operator of this precedence: in parentheses if its own is lower.
std::string within(const Expression& e, Level level);

class Printer {
 public:
  virtual ~Printer() = default;
  Printer(const Printer&) = delete;
  Printer& operator=(const Printer&) = delete;

 protected:
  Printer(const Module& module, const Kernel& kernel) : module_(module), kernel_(kernel) {}

  virtual std::string memory_name(const Memory& memory) const = 0;
  virtual std::string variable_name(Variable v) const = 0;
  virtual std::string symbol_name(int s) const = 0;
  virtual std::string index_register(Register r) const = 0;  // a register in an index term

  Expression index(const Term& term) const;
  virtual std::string element(const Memory& memory, const Term& offset) const;

  virtual void print_block(const Block& block);
  virtual void print(const Define& s) = 0;
  virtual void print(const Reset& s) = 0;
  virtual void print(const Combine& s) = 0;
  virtual void print(const CombineFirst& s) = 0;
  virtual void print(const Store& s) = 0;
  virtual void print(const StoreCombine& s) = 0;
  virtual void print(const StoreFirst& s) = 0;
  virtual void print(const Move& s) = 0;
  virtual void print(const Barrier& s) = 0;
  virtual void print(const Prefetch& s) = 0;
  virtual void print(const For& s) = 0;
  virtual void print(const If& s) = 0;

  void line(const std::string& text);  // appends a line, indented by the nesting depth
  void print_inside(const Block& block);

  const Module& module_;
  const Kernel& kernel_;
  std::string text_;
  int depth_ = 0;
};

}  // namespace caravan::loop
