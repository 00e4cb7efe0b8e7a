// Programs as text. One line an accumulation:
//
//     y[b, o] += w[o, i] * x[b, i]   for b < 10, o < 16, i < 2   # w(x), main.cpp:12
//     p[o] max= x[2*o + k - 1]   for o < 4, k < 3 where 2*o + k - 1 >= 0   # pool
//     e[b, d] += table[ids[b], d]   for b < 32, d < 64   # gather
//     n[b] argmax= x[b, c]   for b < 32, c < 10 counting c   # argmax
//     m[c] += x[b, c]   for b < 100000, c < 64   # mean, main.cpp:14, summed in blocks of 50 b, 1250 b, 25000 b
//
// Indices are in memory order: batch, output, input.
#include "caravan/ir/print.h"

#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/ir/text.h"
#include "caravan/ir/write_form.h"

namespace caravan::ir {

bool in_memory(const Buffer& buffer) {
  return std::holds_alternative<StateLeaf>(buffer.kind) || std::holds_alternative<DataLeaf>(buffer.kind) ||
         std::holds_alternative<Computed>(buffer.kind);
}

namespace {

std::vector<std::string> symbol_names(const Program& program) {
  std::vector<std::string> names;
  for (const Symbol& symbol : program.symbols) names.push_back(symbol.name);
  return names;
}

std::string name_of(const Program& program, BufferId buffer) {
  if (buffer >= 0 && size_t(buffer) < program.buffers.size()) return program.buffers[size_t(buffer)].name;
  return "buffer" + std::to_string(buffer);
}

std::string kind_text(const Program& program, const BufferKind& kind) {
  struct Visitor {
    const Program& program;
    std::string operator()(const StateLeaf&) const { return "state"; }
    std::string operator()(const DataLeaf&) const { return "data"; }
    std::string operator()(const NumberLeaf& leaf) const { return "number " + number_text(leaf.value); }
    std::string operator()(const SymbolLeaf& leaf) const {
      const size_t k = size_t(leaf.symbol);
      return "symbol " + (k < program.symbols.size() ? program.symbols[k].name : std::to_string(leaf.symbol));
    }
    std::string operator()(const IotaLeaf&) const { return "iota"; }
    std::string operator()(const RandomLeaf& leaf) const {
      return "random \"" + leaf.stream + "\", word " + std::to_string(leaf.lane) + ", " + std::to_string(leaf.width) +
             " bits, step " + name_of(program, leaf.step);
    }
    std::string operator()(const Computed&) const { return "computed"; }
  };
  return std::visit(Visitor{program}, kind);
}

// The order of a sum that is cut into blocks or adds fused products, as a remark at the end of the line. Lanes without
// blocks are not mentioned; the printed loops show them.
std::string order_text(const Accumulation& a) {
  auto name = [&](int k) {
    return k >= 0 && size_t(k) < a.iterators.size() ? a.iterators[size_t(k)] : "iterator" + std::to_string(k);
  };
  const std::string fused = a.order.fused ? "fused" : "";
  if (a.order.blocks.empty()) return fused;
  const std::string lanes =
      a.order.lanes < 0 ? "" : std::to_string(a.order.width) + " lanes of " + name(a.order.lanes) + ", ";
  return fused + (fused.empty() ? "" : ", ") + "summed in " + lanes + "blocks of " +
         joined(a.order.blocks, ", ",
                [&](const SumOrder::Block& block) { return std::to_string(block.size) + " " + name(block.iterator); });
}

// Whether every element of the target is written exactly once, so that nothing accumulates.
bool is_pointwise(const Program& program, const Accumulation& a) {
  const WriteForm form = write_form(program, a);
  return form.covers && !a.part && a.where.empty() && a.counted.empty() &&
         std::all_of(form.outer.begin(), form.outer.end(), [](bool outer) { return outer; });
}

std::string text_of(const Program& program, const Accumulation& a, std::string_view symbol) {
  const auto symbols = symbol_names(program);
  // The text of an operand may contain that of another one, its index tensor, which may come later in the list. So
  // texts are made on demand. In an ill-formed cycle, an operand whose text is still being made is printed as its name.
  std::vector<std::string> texts(a.operands.size());
  std::vector<bool> begun(a.operands.size(), false);
  auto term_text = [&](const Term& term) { return to_string(term, a.iterators, symbols, texts); };
  auto access = [&](BufferId buffer, const std::vector<Term>& map) {
    return name_of(program, buffer) + (map.empty() ? "" : "[" + joined(map, ", ", term_text) + "]");
  };
  auto make = [&](auto& self, size_t k) -> void {
    if (begun[k]) return;
    begun[k] = true;
    texts[k] = name_of(program, a.operands[k].buffer);
    for (const Term& term : a.operands[k].map)
      for (const Term::Part& part : term.parts)
        if (part.kind == Term::Part::Kind::load && part.which >= 0 && size_t(part.which) < texts.size())
          self(self, size_t(part.which));
    texts[k] = access(a.operands[k].buffer, a.operands[k].map);
  };
  for (size_t k = 0; k < a.operands.size(); ++k) make(make, k);

  std::string out = access(a.target, a.write) + " " + std::string(symbol) + " " + to_string(a.body, texts);
  if (a.collective)
    out = name_of(program, a.target) + " = " + std::string(name(a.collective->kind)) + "(" + texts[0] + ")";

  std::string box, counting;
  for (size_t k = 0; k < a.iterators.size(); ++k) {
    add_to_list(box, a.iterators[k] + " < " + (k < a.extents.size() ? std::to_string(a.extents[k]) : "?"));
    if (k < a.counted.size() && a.counted[k]) add_to_list(counting, a.iterators[k]);
  }
  std::string domain;
  if (!box.empty()) domain += " for " + box;
  if (!a.where.empty())
    domain += " where " + joined(a.where, " and ", [&](const Term& t) { return term_text(t) + " >= 0"; });
  if (!counting.empty()) domain += " counting " + counting;
  if (a.after != -1) domain += " after " + name_of(program, a.after);
  if (!domain.empty()) out += "  " + domain;

  std::string remark = a.label;
  for (const std::string& more : {a.source.known() ? to_string(a.source) : "", order_text(a)})
    if (!more.empty()) add_to_list(remark, more);
  return out + (remark.empty() ? "" : "   # " + remark);
}

std::string text_of(const Program& program, bool readable) {
  std::string out = "program" + (program.name.empty() ? "" : " " + program.name) + "\n";
  for (const Symbol& symbol : program.symbols)
    out += "symbol " + symbol.name + (symbol.range > 0 ? " < " + std::to_string(symbol.range) : "") + "\n";
  for (const Buffer& buffer : program.buffers) {
    if (std::holds_alternative<Computed>(buffer.kind)) continue;
    const std::string shape = to_string(buffer.shape);
    out += buffer.name + ": " + (shape.empty() ? "scalar" : shape) + " " + std::string(name(buffer.dtype)) + " " +
           kind_text(program, buffer.kind) + "\n";
  }
  for (const Accumulation& a : program.accumulations)
    out += (readable ? ir::readable(program, a) : to_string(program, a)) + "\n";
  for (const Assignment& assignment : program.assignments)
    out += name_of(program, assignment.state) + " := " + name_of(program, assignment.value) + "\n";
  if (!program.observed.empty())
    out += "observe " + joined(program.observed, ", ", [&](BufferId id) { return name_of(program, id); }) + "\n";
  return out;
}

}  // namespace

std::string to_string(const Program& program, const Accumulation& accumulation) {
  return text_of(program, accumulation, row(accumulation.accumulator).symbol);
}
std::string to_string(const Program& program) { return text_of(program, false); }
std::string readable(const Program& program, const Accumulation& a) {
  return text_of(program, a, is_pointwise(program, a) ? "=" : row(a.accumulator).symbol);
}
std::string readable(const Program& program) { return text_of(program, true); }

std::string axis_text(const Shape& shape, size_t axis) {
  for (RowKind kind : kMemoryOrder) {
    if (axis < shape[kind].size()) return std::string(name(kind)) + " axis " + std::to_string(axis + 1);
    axis -= shape[kind].size();
  }
  CARAVAN_CHECK(false, "the shape has no such axis");
}

}  // namespace caravan::ir
