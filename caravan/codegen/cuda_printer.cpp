#include "caravan/codegen/cuda_printer.h"

#include <algorithm>

#include "caravan/base/list_text.h"
#include "caravan/codegen/words.h"
#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::codegen {

using namespace loop;

void CudaPrinter::print(const For& s) {
  if (s.kind == LoopKind::grid && !kernel_.contractions.empty())
    print_product(s);
  else if (s.kind == LoopKind::rows)
    print_scatter(s);
  else
    KernelPrinter::print(s);
}

std::string CudaPrinter::memory_name(const Memory& memory) const {
  const auto piece = memory.is_local() ? pieces_.find(memory.local()) : pieces_.end();
  if (piece == pieces_.end()) return KernelPrinter::memory_name(memory);
  return "caravan_piece" + std::to_string(std::distance(pieces_.begin(), piece));
}
std::string CudaPrinter::element(const Memory& memory, const Term& offset) const {
  if (!memory.is_local() || !pieces_.count(memory.local())) return KernelPrinter::element(memory, offset);
  return memory_name(memory) + ".all[" + index(offset).text + "]";
}

void CudaPrinter::print_block(const Block& block) {
  auto is_move = [&](size_t k, bool store) {
    auto* move = k < block.size() ? std::get_if<Move>(&block[k]) : nullptr;
    return move && move->store == store;
  };
  for (size_t k = 0; k < block.size(); ++k) {
    size_t at = k;
    while (is_move(at, false)) ++at;
    auto* loop = at < block.size() ? std::get_if<For>(&block[at]) : nullptr;
    if (!loop || loop->kind != LoopKind::serial || loop->unroll != Unroll::full) {
      declare_before(block[k]);
      std::visit([&](const auto& s) { print(s); }, block[k]);
      continue;
    }
    size_t end = at + 1;
    while (is_move(end, true)) ++end;
    declare_before(block[at]);
    print_with_pieces(std::span(block).subspan(k, end - k), *loop);
    k = end - 1;
  }
}
// A loop and the moves before and after it, in a block of their own, in which pieces have numbers. A piece is declared
// where it is loaded.
void CudaPrinter::print_with_pieces(std::span<const Statement> group, const For& loop) {
  for (const Statement& s : group)
    if (auto* move = std::get_if<Move>(&s)) {
      const Move*& loaded = pieces_.try_emplace(move->local, nullptr).first->second;
      if (!move->store) loaded = move;
    }
  auto first_of = [&](const Move& move) { return "&" + KernelPrinter::element(move.buffer, move.offset); };
  line("{");
  ++depth_;
  for (const auto& [number, load] : pieces_) {
    const Local& piece = kernel_.locals[size_t(number)];
    const std::string count = std::to_string(piece.elements), type = dialect_.element_type(piece.dtype);
    line("caravan_neighbours<" + type + ", " + count + "> " + memory_name(Memory::local(number)) +
         (load ? " = caravan_load<" + count + ", " + type + ">(" + first_of(*load) + ");" : ";"));
  }
  print(loop);
  for (const Statement& s : group)
    if (auto* move = std::get_if<Move>(&s); move && move->store)
      line("caravan_store(" + first_of(*move) + ", " + memory_name(Memory::local(move->local)) + ");");
  --depth_;
  line("}");
  pieces_.clear();
}

void CudaPrinter::print(const Attention& a) {
  const DType dtype = module_.buffers[size_t(a.reads[0].buffer)].dtype;
  const std::string units = dtype == DType::bf16  ? "caravan_bf16"
                            : dtype == DType::f16 ? "caravan_f16"
                            : a.tf32              ? "caravan_tf32"
                                                  : "caravan_plain";
  const std::string function = a.part == Attention::Part::forward ? "caravan_attention"
                               : a.part == Attention::Part::rows  ? "caravan_attention_rows"
                                                                  : "caravan_attention_columns";
  auto number = [](int64_t n) { return std::to_string(n); };
  auto row = [&](const Attention::Rows& r) {
    return "{" + memory_name(r.buffer) + " + " + number(r.offset) + ", " + number(r.batch) + ", " + number(r.head) +
           ", " + number(r.row) + "}";
  };
  auto optional = [&](ir::BufferId id) { return id >= 0 ? memory_name(id) : "nullptr"; };
  std::vector<std::string> arguments;
  for (const Attention::Rows& r : a.writes) arguments.push_back(row(r));
  if (a.part == Attention::Part::forward) arguments.push_back(optional(a.totals));
  if (a.part == Attention::Part::rows) arguments.push_back(optional(a.dots));
  for (const Attention::Rows& r : a.reads) arguments.push_back(row(r));
  if (a.part != Attention::Part::forward) arguments.push_back(optional(a.totals));
  if (a.part == Attention::Part::columns) arguments.push_back(optional(a.dots));
  line("  " + function + "<" + units + ", " + number(a.padded) + ", " + number(a.tile_columns) + ", " +
       (a.causal ? "true" : "false") + ">(");
  line("      caravan_block, caravan_blocks, {" + number(a.batch) + ", " + number(a.heads) + ", " + number(a.rows) +
       ", " + number(a.columns) + ", " + number(a.depth) + ", " + literal(a.scale, DType::f32) + "}, " +
       joined(arguments) + ");");
}

// The value of each variable of these loops, from the number of an iteration of all of them.
void CudaPrinter::print_digits(const std::vector<const For*>& loops, const std::string& number) {
  for (size_t k = 0; k < loops.size(); ++k) {
    std::string digit = number;
    if (loops[k]->chunk > 1) digit += " / " + std::to_string(loops[k]->chunk);
    if (k > 0) digit += " % " + std::to_string(loops[k]->extent);
    line("[[maybe_unused]] const " + index_ + " " + variable_name(loops[k]->variable) + " = " + digit + ";");
  }
}
// Those definitions of the block that the registers need.
Block CudaPrinter::needed(const Block& definitions, std::set<Register> wanted) {
  Block out;
  for (size_t k = definitions.size(); k-- > 0;) {
    const Define& d = std::get<Define>(definitions[k]);
    if (!wanted.count(d.to)) continue;
    for_each_use(definitions[k], [&](Register r) { wanted.insert(r); });
    out.insert(out.begin(), definitions[k]);
  }
  return out;
}
void CudaPrinter::print_factor(const CudaNest& nest, Register factor, const char* parameters,
                               const std::vector<const For*>& one, const char* one_name,
                               const Contraction::Factor& how) {
  const bool copied = how.copied > 0;
  const std::string type = dialect_.element_type(this->type(nest.combine->to));
  line("[&](" + std::string(parameters) + (copied ? ", bool& caravan_there) -> const void* {" : ") -> " + type + " {"));
  ++depth_;
  print_digits(nest.batch, "caravan_at"), print_digits(one, one_name), print_digits(nest.terms, "caravan_term");
  const std::string guard = how.guarded ? condition(nest.guard) : "";
  Block definitions = needed(nest.before, {factor});
  if (copied) {
    const Load load = std::get<Load>(std::get<Define>(definitions.back()).value);
    definitions.pop_back();  // the others are indices that it is found by
    if (!guard.empty()) line("caravan_there = caravan_there && (" + guard + ");");
    line("if (!caravan_there) return " + memory_name(load.buffer) + ";");
    print_block(definitions);
    line("return &" + element(load.buffer, load.offset) + ";");
  } else {
    if (!guard.empty()) line("if (!(" + guard + ")) return 0;");
    print_block(definitions);
    line("return " + as(factor, this->type(nest.combine->to)).text + ";");
  }
  --depth_;
  line("},");
}
void CudaPrinter::print_product(const For& outermost) {
  CudaNest nest;
  nest.batch.push_back(&outermost);
  take_apart(outermost.body, nest);
  const std::vector<Define> brought = take_brought(nest);
  const Contraction& c = kernel_.contractions[0];
  const std::string type = dialect_.element_type(this->type(nest.combine->to));
  auto number = [](int64_t n) { return std::to_string(n); };
  auto come = [&](const Contraction::Factor& f) { return (f.along ? ", true, " : ", false, ") + number(f.copied); };
  constexpr const char* kUnits[] = {"caravan_plain", "caravan_tf32", "caravan_bf16", "caravan_f16"};
  line("struct caravan_brought {");
  for (const Define& d : brought)
    line("  " + dialect_.register_type(kernel_.registers[size_t(d.to)]) + " " + register_name(d.to) + ";");
  line("};");
  line("caravan_product<" + type + ", " + kUnits[size_t(c.units)] + ", " + number(c.tile_rows) + ", " +
       number(c.tile_columns) + ", " + number(c.depth) + ", " + number(c.stages) + ", " + number(c.slices) +
       come(c.left) + come(c.right) + ">(");
  ++depth_;
  line("caravan_block, caravan_blocks, " + number(c.batch) + ", " + number(c.rows) + ", " + number(c.columns) + ", " +
       number(c.terms) + ",");
  print_factor(nest, nest.combine->value, "int caravan_at, int caravan_row, int caravan_term", nest.rows, "caravan_row",
               c.left);
  print_factor(nest, nest.combine->factor, "int caravan_at, int caravan_term, int caravan_column", nest.columns,
               "caravan_column", c.right);
  auto print_point = [&] {
    print_digits(nest.batch, "caravan_at"), print_digits(nest.rows, "caravan_row");
    print_digits(nest.columns, "caravan_column");
  };
  line("[&](int caravan_at, int caravan_row, int caravan_column) {");
  ++depth_;
  print_point();
  std::vector<std::string> values;
  for (const Define& d : brought) values.push_back(value(d.to, d.value).text);
  line("return caravan_brought{" + joined(values) + "};");
  --depth_;
  line("},");
  const std::string total = register_name(nest.combine->to);
  line("[&](int caravan_at, int caravan_row, int caravan_column, " + type + " " + total +
       ", [[maybe_unused]] const caravan_brought& caravan_own) {");
  ++depth_;
  texts_[size_t(nest.combine->to)] = {total};
  for (const Define& d : brought) texts_[size_t(d.to)] = {"caravan_own." + register_name(d.to)};
  print_point();
  std::set<Register> wanted;
  for (const Statement& s : nest.after) for_each_use(s, [&](Register r) { wanted.insert(r); });
  print_block(needed(nest.before, wanted));
  print_block(nest.after);
  --depth_;
  line("});");
  --depth_;
}
// Takes from `after` the definitions that are loaded early.
std::vector<Define> CudaPrinter::take_brought(CudaNest& nest) {
  std::vector<Define> out;
  std::erase_if(nest.after, [&](const Statement& s) {
    auto* define = std::get_if<Define>(&s);
    auto* load = define ? std::get_if<Load>(&define->value) : nullptr;
    if (load && load->early) out.push_back(*define);
    return load && load->early;
  });
  return out;
}

}  // namespace caravan::codegen
