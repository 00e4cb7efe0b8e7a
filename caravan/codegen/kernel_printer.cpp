#include "caravan/codegen/kernel_printer.h"

#include <algorithm>

#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/codegen/words.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"

namespace caravan::codegen {

using namespace loop;
using ir::BufferId;
using Part = Term::Part;

// --- names ---

KernelPrinter::KernelPrinter(const Module& module, const Kernel& kernel, const Dialect& dialect, Names names)
    : Expressions(module, kernel, dialect) {
  std::set<std::string> taken;
  auto add = [&](const std::string& own, const char* kind, size_t n) {
    return unique(taken, names == Names::own ? dialect_.free_name(identifier(own)) : kind + std::to_string(n));
  };
  for (size_t n = 0; n < uses_.buffers.size(); ++n)
    buffers_[uses_.buffers[n]] = add(module_.buffers[size_t(uses_.buffers[n])].name, "b", n);
  for (size_t n = 0; n < kernel_.variables.size(); ++n) variables_.push_back(add(kernel_.variables[n], "v", n));
  for (size_t n = 0; n < uses_.symbols.size(); ++n)
    symbols_[uses_.symbols[n]] = add(module_.symbols[size_t(uses_.symbols[n])].name, "s", n);
  for (const Local& local : kernel_.locals) locals_.push_back(unique(taken, local.name));
  for_each_of<Combine>(statements(kernel_), [&](const Combine& c) {
    if (!totals_.count(c.to)) totals_[c.to] = unique(taken, dialect_.free_name(std::string(total_name(c.accumulator))));
  });
  place_locals();
}

std::string KernelPrinter::memory_name(const Memory& memory) const {
  return memory.is_local() ? locals_[size_t(memory.local())] : buffers_.at(memory);
}
std::string KernelPrinter::register_name(Register r) const {
  auto total = totals_.find(r);
  return total == totals_.end() ? "r" + std::to_string(r) : total->second;
}

// A local is declared in the innermost block that contains all of its uses. A piece is declared where it is moved, by
// a language that has pieces.
void KernelPrinter::place_locals() {
  for (int local = 0; local < int(kernel_.locals.size()); ++local) {
    if (kernel_.locals[size_t(local)].scope == Scope::piece) continue;
    const Block* block = &statements(kernel_);
    while (block) {
      std::vector<const Statement*> users;
      for (const Statement& s : *block) {
        bool used = false;
        for_each_local(s, [&](int l, bool) { used = used || l == local; });
        if (used) users.push_back(&s);
      }
      block = users.size() == 1 ? inside(*users[0]) : nullptr;
      if (!block && !users.empty()) declared_before_[users[0]].push_back(local);
    }
  }
}

// --- functions ---

std::string KernelPrinter::head(const std::string& function) const {
  std::vector<std::string> parameters;
  for (BufferId id : uses_.buffers) {
    using Use = Dialect::BufferUse;
    const Use use = uses_.exchanged.count(id) ? Use::exchanged : uses_.written.count(id) ? Use::written : Use::read;
    parameters.push_back(dialect_.buffer_parameter(type(Memory(id)), buffers_.at(id), use));
  }
  for (int s : uses_.symbols) parameters.push_back("int64_t " + symbols_.at(s));
  if (!uses_.streams.empty()) parameters.push_back("uint64_t seed");
  for (size_t n = 0; n < uses_.streams.size(); ++n) parameters.push_back("uint64_t stream" + std::to_string(n));
  for (const std::string& parameter : dialect_.work_parameters(kernel_)) parameters.push_back(parameter);
  return dialect_.head(function, parameters);
}

std::string KernelPrinter::body() {
  text_.clear();
  for (BufferId id : kernel_.aligned)
    if (const std::string text = dialect_.aligned(buffers_.at(id)); !text.empty()) line("  " + text);
  if (const Attention* a = attention(kernel_)) print(*a);
  print_inside(statements(kernel_));
  return " {\n" + text_ + "}\n";
}

void KernelPrinter::print(const Attention&) {
  CARAVAN_CHECK(false, "attention in a language without a function for it");
}

// --- statements ---

void KernelPrinter::print_block(const Block& block) {
  for (const Statement& s : block) {
    declare_before(s);
    std::visit([&](const auto& x) { print(x); }, s);
  }
}
void KernelPrinter::declare_before(const Statement& s) {
  if (auto locals = declared_before_.find(&s); locals != declared_before_.end())
    for (int local : locals->second) line(dialect_.local(kernel_.locals[size_t(local)], locals_[size_t(local)]));
}

void KernelPrinter::print(const Define& s) {
  if (auto* c = std::get_if<Constant>(&s.value)) {
    constants_[s.to] = c->value;
    return;
  }
  texts_[size_t(s.to)] = value(s.to, s.value);
  if (!uses_.is_variable[size_t(s.to)]) return;
  line("const " + dialect_.register_type(kernel_.registers[size_t(s.to)]) + " " + register_name(s.to) + " = " +
       text_of(s.to).text + ";");
  texts_[size_t(s.to)] = {register_name(s.to)};
}
void KernelPrinter::print(const Reset& s) {
  texts_[size_t(s.to)] = {register_name(s.to)};
  const std::string start = number(s.value, type(s.to)).text;
  if (width(s.to) == 1)
    line(dialect_.element_type(type(s.to)) + " " + register_name(s.to) + " = " + start + ";");
  else
    line(dialect_.register_type(kernel_.registers[size_t(s.to)]) + " " + register_name(s.to) + " = {" + start + "};");
}

void KernelPrinter::print_combined(Accumulator accumulator, RegisterType type, const Expression& total, Register value,
                                   Register factor) {
  if (factor >= 0 && type.width > 1) {
    const std::string vector = std::string(name(type.dtype)) + "x" + std::to_string(type.width);
    auto all = [&](Register r) {
      const std::string text = as(r, type.dtype).text;
      return width(r) > 1 ? text : helper("all_" + vector) + "(" + text + ")";
    };
    return line(total.text + " = " + helper("fma_" + vector) + "(" + all(value) + ", " + all(factor) + ", " +
                total.text + ");");
  }
  if (factor >= 0) {
    const Expression operands[3] = {as(value, type.dtype), as(factor, type.dtype), total};
    return line(total.text + " = " + applied(Op::fma, type.dtype, operands).text + ";");
  }
  const Expression operands[3] = {total, as(value, type.dtype), {}};
  if (accumulator == Accumulator::add) return line(total.text + " += " + operands[1].text + ";");
  line(total.text + " = " + applied(*row(accumulator).op, type.dtype, operands).text + ";");
}
void KernelPrinter::print(const Combine& s) {
  print_combined(s.accumulator, kernel_.registers[size_t(s.to)], text_of(s.to), s.value, s.factor);
}
void KernelPrinter::print(const StoreCombine& s) {
  const int lanes = std::max(width(s.value), s.factor >= 0 ? width(s.factor) : 1);
  print_combined(s.accumulator, {type(s.buffer), lanes}, elements(s.buffer, s.offset, lanes, true), s.value, s.factor);
}

// NaN beats everything but NaN. Of equal values the first stays.
void KernelPrinter::print_first(Accumulator accumulator, DType dtype, const Expression& value, const std::string& best,
                                const std::string& position, const Term& term) {
  // Without branches, so that the C compiler can compute several lanes at once.
  const std::string operand = within(value, Level::add);
  std::string wins =
      "(" + position + " < 0) | (" + operand + (accumulator == Accumulator::argmax ? " > " : " < ") + best + ")";
  if (is_float(dtype)) wins += " | ((" + operand + " != " + operand + ") & (" + best + " == " + best + "))";
  line("{");
  line("  const int wins = " + wins + ";");
  line("  " + best + " = wins ? " + value.text + " : " + best + ", " + position + " = wins ? " +
       within(index(term), Level::or_) + " : " + position + ";");
  line("}");
}
void KernelPrinter::print(const CombineFirst& s) {
  print_first(s.accumulator, type(s.best), as(s.value, type(s.best)), text_of(s.best).text, text_of(s.position).text,
              s.term);
}
void KernelPrinter::print(const StoreFirst& s) {
  print_first(s.accumulator, type(s.value), as(s.value, type(s.value)), element(s.best, s.offset),
              element(s.positions, s.offset), s.term);
}

void KernelPrinter::print(const Store& s) {
  line(elements(s.buffer, s.offset, width(s.value), true).text + " = " + stored(s.value, type(s.buffer)).text + ";");
}

void KernelPrinter::print(const Move&) { CARAVAN_CHECK(false, "a piece in a language without pieces"); }

void KernelPrinter::print(const Barrier&) { line(dialect_.barrier(kernel_.grid)); }

void KernelPrinter::print(const Prefetch& s) {
  const int64_t size = s.elements * bytes(module_.buffers[size_t(s.buffer)].dtype);
  if (const std::string text = dialect_.prefetch("&" + element(s.buffer, s.offset), size, s.nearest); !text.empty())
    line(text);
}

void KernelPrinter::print(const For& s) {
  for (const std::string& text : dialect_.before_loop(s)) line(text);
  if (s.unroll == Unroll::never) line(helper("keep_loop") + "()");
  line(dialect_.loop(s, variable_name(s.variable)));
  print_inside(s.body);
  line("}");
}

// The condition term >= 0, with negative parts moved to the other side: "i >= j" for i - j.
std::string KernelPrinter::not_negative(const Term& term) const {
  Term plus = Term::number(std::max<int64_t>(term.constant, 0)),
       minus = Term::number(std::max<int64_t>(-term.constant, 0));
  for (const Part& part : term.parts) {
    Part positive = part;
    positive.coefficient = std::abs(part.coefficient);
    (part.coefficient < 0 ? minus : plus).parts.push_back(positive);
  }
  return plus.parts.empty() ? index(minus).text + " <= " + index(plus).text
                            : index(plus).text + " >= " + index(minus).text;
}
std::string KernelPrinter::condition(const If& s) const {
  std::string out;
  for (const Term& t : s.where) out += (out.empty() ? "" : " && ") + not_negative(t);
  return out;
}
void KernelPrinter::print(const If& s) {
  line("if (" + condition(s) + ") {");
  print_inside(s.body);
  line("}");
}

}  // namespace caravan::codegen
