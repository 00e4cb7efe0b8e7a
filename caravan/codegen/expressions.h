// Values of a kernel as expressions of a language: loads, ops, conversions, numbers.
#pragma once

#include <map>
#include <set>

#include "caravan/codegen/dialect.h"
#include "caravan/codegen/uses.h"
#include "caravan/loop/printer.h"

namespace caravan::codegen {

class Expressions : public loop::Printer {
 public:
  // Helpers of the prelude ("to_u8") and elementary functions ("exp") that the printed text calls.
  const std::set<std::string, std::less<>>& helpers() const { return helpers_; }
  bool calls_math() const { return calls_math_; }

 protected:
  using Expression = loop::Expression;

  Expressions(const loop::Module& module, const loop::Kernel& kernel, const Dialect& dialect)
      : Printer(module, kernel), dialect_(dialect), uses_(uses_of(module, kernel)), texts_(kernel.registers.size()) {}

  DType type(loop::Register r) const { return kernel_.registers[size_t(r)].dtype; }
  int width(loop::Register r) const { return kernel_.registers[size_t(r)].width; }
  DType type(const loop::Memory& memory) const;
  const Expression& text_of(loop::Register r) const { return texts_[size_t(r)]; }

  Expression value(loop::Register to, const loop::Value& value);
  // A register as a value of precision `to`. Floats saturate in an integer, integers wrap.
  Expression as(loop::Register r, DType to);
  Expression stored(loop::Register r, DType to);  // as an element in memory; an f16 or bf16 is stored as its bits
  Expression applied(Op op, DType compute, const Expression* operands);
  // A vector of `width` elements that starts at this offset.
  Expression elements(const loop::Memory& memory, const loop::Term& offset, int width, bool written) const;

  std::string helper(std::string_view name);
  static Expression number(double value, DType dtype);

  const Dialect& dialect_;
  const Uses uses_;
  std::vector<Expression> texts_;               // by register: the text that is printed where it is used
  std::map<loop::Register, double> constants_;  // registers that are numbers

 private:
  Expression of(loop::Register to, const loop::Constant& v);
  Expression of(loop::Register to, const loop::Load& v);
  Expression of(loop::Register to, const loop::IndexValue& v);
  Expression of(loop::Register to, const loop::RandomValue& v);
  Expression of(loop::Register to, const loop::Apply& v);
  Expression of(loop::Register to, const loop::Cast& v);
  Expression of(loop::Register to, const loop::Interleave& v);
  Expression of(loop::Register to, const loop::AcrossLanes& v);

  std::string index_register(loop::Register r) const override { return text_of(r).text; }
  Expression spelled(const Spelling& spelling, int entry, DType compute, const Expression* operands);
  Expression converted(const Expression& e, DType from, DType to);
  Expression narrow(loop::Register r, DType to);
  Expression call(std::string_view helper, const std::string& arguments);

  std::set<std::string, std::less<>> helpers_;
  bool calls_math_ = false;
};

}  // namespace caravan::codegen
