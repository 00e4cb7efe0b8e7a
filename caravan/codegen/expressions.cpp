#include "caravan/codegen/expressions.h"

#include <algorithm>

#include "caravan/base/list_text.h"
#include "caravan/codegen/functions.h"
#include "caravan/codegen/words.h"
#include "caravan/ops/table.h"

namespace caravan::codegen {

using namespace loop;

namespace {
constexpr UnknownCall kUnknownCall = unknown_call(kOps);
}
template struct OpCallsKnownFunctions<kUnknownCall.op, kUnknownCall.function>;

namespace {

std::string text(DType dtype) { return std::string(name(dtype)); }

Expression cast_to(const std::string& type, const Expression& e) {
  return {"(" + type + ")" + within(e, Level::atom), Level::unary};
}

// C's precedence, with redundant parentheses where compilers warn without them: && in ||, comparisons in comparisons.
Expression infix(const Spelling::Entry& entry, const Expression& a, const Expression& b) {
  const Level level = entry.level;
  const bool compares = level == Level::equal || level == Level::compare;
  const Level tighter = level == Level::or_ ? Level::equal : compares ? Level::add : Level(int(level) + 1);
  const Level left = compares || (level == Level::or_ && a.level == Level::and_) ? tighter : level;
  return {within(a, left) + " " + std::string(entry.text) + " " + within(b, tighter), level};
}

}  // namespace

std::string Expressions::helper(std::string_view name) {
  helpers_.emplace(name);
  return dialect_.helper(name);
}
Expression Expressions::call(std::string_view name, const std::string& arguments) {
  return {helper(name) + "(" + arguments + ")"};
}
Expression Expressions::number(double value, DType dtype) {
  std::string out = literal(value, dtype);
  const bool minus = out.starts_with('-');
  return {std::move(out), minus ? Level::unary : Level::atom};
}
DType Expressions::type(const Memory& memory) const {
  return memory.is_local() ? kernel_.locals[size_t(memory.local())].dtype : module_.buffers[size_t(memory)].dtype;
}
// A vector access starts with a dereference, and so gets parentheses as an operand.
Expression Expressions::elements(const Memory& memory, const Term& offset, int width, bool written) const {
  const std::string first = element(memory, offset);
  if (width == 1) return {first};
  return {dialect_.vector_at({type(memory), width}, first, written), Level::none};
}

// --- precisions ---

Expression Expressions::converted(const Expression& e, DType from, DType to) {
  if (from == to) return e;
  if (to == DType::boolean) return {within(e, Level::add) + " != 0", Level::equal};
  if (is_float(from) && !is_float(to)) return call("to_" + text(to), e.text);
  return cast_to(dialect_.element_type(to), e);
}
Expression Expressions::as(Register r, DType to) {
  auto constant = constants_.find(r);
  if (constant != constants_.end())
    return number(is_float(type(r)) ? convert(type(r), constant->second) : constant->second, to);
  return converted(text_of(r), type(r), to);
}
// The bits of an f16 or bf16, rounded once, whatever the precision of the register.
Expression Expressions::narrow(Register r, DType to) {
  return call("to_" + text(to),
              type(r) == DType::f32 ? as(r, DType::f32).text : call("odd", as(r, DType::f64).text).text);
}
Expression Expressions::stored(Register r, DType to) { return wide(to) == to ? as(r, to) : narrow(r, to); }

// --- values ---

Expression Expressions::value(Register to, const Value& value) {
  return std::visit([&](const auto& v) { return of(to, v); }, value);
}
Expression Expressions::of(Register to, const Constant& v) { return number(v.value, type(to)); }
Expression Expressions::of(Register to, const Load& v) {
  const DType from = type(v.buffer);
  if (wide(from) != from) return call("from_" + text(from), element(v.buffer, v.offset));
  if (v.once && width(to) > 1)
    return {dialect_.vector_once({from, width(to)}, element(v.buffer, v.offset)), Level::none};
  return elements(v.buffer, v.offset, width(to), false);
}
Expression Expressions::of(Register to, const IndexValue& v) { return converted(index(v.term), DType::i64, type(to)); }
Expression Expressions::of(Register to, const RandomValue& v) {
  const ir::RandomLeaf& leaf = random_leaf(module_, v.leaf);
  const auto stream = std::find(uses_.streams.begin(), uses_.streams.end(), leaf.stream) - uses_.streams.begin();
  const Expression bits =
      call("random", "seed, stream" + std::to_string(stream) + ", " + cast_to("uint64_t", as(v.step, DType::i64)).text +
                         ", " + cast_to("uint64_t", index(v.element)).text + ", " + std::to_string(leaf.lane));
  return cast_to(dialect_.element_type(type(to)), {bits.text + " >> " + std::to_string(32 - leaf.width), Level::none});
}
Expression Expressions::of(Register to, const Apply& v) {
  Expression operands[3];
  const OpRow& facts = row(v.op);
  for (int k = 0; k < facts.arity; ++k) {
    const Register r = v.args[k];
    const bool condition = facts.result == ResultType::select && k == 0;
    operands[k] = as(r, !condition ? v.compute : constants_.count(r) ? DType::f64 : type(r));
  }
  const Expression e = applied(v.op, v.compute, operands);
  return type(to) == DType::u8 ? cast_to(dialect_.element_type(DType::u8), e) : e;  // C computes it as an int
}
Expression Expressions::of(Register, const Cast& v) {  // out of range saturates
  if (auto constant = constants_.find(v.arg); constant != constants_.end())
    return number(convert(v.to, constant->second), wide(v.to));
  if (wide(v.to) != v.to) return call("from_" + text(v.to), narrow(v.arg, v.to).text);
  const DType from = type(v.arg);
  const bool shorter = !is_float(from) && !is_float(v.to) && v.to != DType::boolean && bytes(v.to) < bytes(from);
  return shorter ? call("to_" + text(v.to), converted(text_of(v.arg), from, DType::f64).text) : as(v.arg, v.to);
}
Expression Expressions::of(Register to, const Interleave& v) {
  return call((v.high ? "high_" : "low_") + text(type(to)) + "x" + std::to_string(width(to)),
              text_of(v.first).text + ", " + text_of(v.second).text);
}

Expression Expressions::of(Register to, const AcrossLanes& v) {
  const Expression operands[3] = {{"a"}, {"b"}, {}};
  return {dialect_.across_lanes(kernel_.grid, type(to), text_of(v.arg).text,
                                applied(*row(v.accumulator).op, type(to), operands).text)};
}

// --- ops ---

Expression Expressions::applied(Op op, DType compute, const Expression* operands) {
  const Spelling& of_op = spelling(op, !is_float(compute));
  return spelled(of_op, of_op.size - 1, compute, operands);
}
Expression Expressions::spelled(const Spelling& spelling, int at, DType compute, const Expression* operands) {
  const Spelling::Entry& entry = spelling.entries[size_t(at)];
  auto part = [&](int k) { return spelled(spelling, entry.args[k], compute, operands); };
  switch (entry.kind) {
    case Spelling::Kind::operand: return operands[entry.args[0]];
    case Spelling::Kind::number: return {std::string(entry.text)};
    case Spelling::Kind::minus: return {"-" + within(part(0), Level::atom), Level::unary};
    case Spelling::Kind::cast: return cast_to(dialect_.element_type(compute), part(0));
    case Spelling::Kind::infix: return infix(entry, part(0), part(1));
    case Spelling::Kind::choice:
      return {
          within(part(0), Level::or_) + " ? " + within(part(1), Level::or_) + " : " + within(part(2), Level::choice),
          Level::choice};
    case Spelling::Kind::call: {
      std::vector<std::string> arguments;
      for (int k = 0; k < entry.count; ++k) arguments.push_back(part(k).text);
      calls_math_ = calls_math_ || in_prelude(entry.text);
      return {dialect_.function(entry.text, compute) + "(" + joined(arguments) + ")"};
    }
  }
  return {};
}

}  // namespace caravan::codegen
