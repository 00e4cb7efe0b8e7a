#include "caravan/loop/printer.h"

#include <algorithm>

namespace caravan::loop {

using Part = Term::Part;

std::string within(const Expression& e, Level level) { return e.level < level ? "(" + e.text + ")" : e.text; }

Expression Printer::index(const Term& term) const {
  std::vector<Part> parts = term.parts;  // positive ones first: "i - j", never "-j + i"
  std::stable_partition(parts.begin(), parts.end(), [](const Part& part) { return part.coefficient > 0; });
  Expression out;
  int terms = 0;
  auto add = [&](int64_t coefficient, const std::string& name) {
    const uint64_t magnitude = coefficient < 0 ? 0 - uint64_t(coefficient) : uint64_t(coefficient);
    const bool minus = coefficient < 0, product = !name.empty() && magnitude != 1;
    out.level = ++terms > 1 ? Level::add : minus ? Level::unary : product ? Level::multiply : Level::atom;
    out.text += terms > 1 ? (minus ? " - " : " + ") : minus ? "-" : "";
    if (name.empty() || product) out.text += std::to_string(magnitude);
    out.text += (product ? "*" : "") + name;
  };
  const bool constant_first = term.constant > 0 && (parts.empty() || parts[0].coefficient < 0);
  if (constant_first) add(term.constant, "");
  for (const Part& part : parts)
    add(part.coefficient, part.kind == Part::Kind::iterator ? variable_name(part.which)
                          : part.kind == Part::Kind::symbol ? symbol_name(part.which)
                                                            : index_register(part.which));
  if (!constant_first && (term.constant != 0 || terms == 0)) add(term.constant, "");
  return out;
}

std::string Printer::element(const Memory& memory, const Term& offset) const {
  return memory_name(memory) + "[" + index(offset).text + "]";
}

void Printer::print_block(const Block& block) {
  for (const Statement& s : block) std::visit([&](const auto& x) { print(x); }, s);
}

void Printer::print_inside(const Block& block) {
  ++depth_;
  print_block(block);
  --depth_;
}

void Printer::line(const std::string& text) { text_ += std::string(size_t(depth_) * 2, ' ') + text + "\n"; }

}  // namespace caravan::loop
