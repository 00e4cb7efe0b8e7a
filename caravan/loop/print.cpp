// Kernels as text (docs/stages.md explains the words):
//
//     kernel relu
//       # relu[b0, o0] += relu(apply[b0, o0] + b1[o0])   for b0 < 10, o0 < 16
//       for b0 < 10:
//         for o0 < 16:
//           r0:f32 = apply[16*b0 + o0]
//           ...
//           relu[16*b0 + o0] = r3
#include "caravan/base/list_text.h"
#include "caravan/ir/text.h"
#include "caravan/loop/loop.h"
#include "caravan/loop/printer.h"
#include "caravan/loop/walk.h"

namespace caravan::loop {

std::string_view name(LoopKind kind) {
  switch (kind) {
    case LoopKind::serial: return "serial";
    case LoopKind::parallel: return "parallel";
    case LoopKind::vector: return "vector";
    case LoopKind::unrolled: return "unrolled";
    case LoopKind::grid: return "grid";
    case LoopKind::lanes: return "lanes";
    case LoopKind::rows: return "rows";
    case LoopKind::columns: return "columns";
    case LoopKind::terms: return "terms";
  }
  return "?";
}

std::string_view total_name(Accumulator accumulator) {
  return accumulator == Accumulator::add ? "sum" : row(accumulator).name;
}

std::string to_string(const Attention& a) {
  using Part = Attention::Part;
  const std::string what = a.part == Part::forward   ? "attention"
                           : a.part == Part::rows    ? "gradient of attention's queries"
                           : a.part == Part::columns ? "gradient of attention's keys and values"
                                                     : "gradient of attention";
  return what + " of " + std::to_string(a.batch * a.heads) + " heads: " + std::to_string(a.rows) + " rows, " +
         std::to_string(a.columns) + " columns, depth " + std::to_string(a.depth) + (a.causal ? ", causal" : "") +
         (a.tile_columns > 0 ? ", in tiles of " + std::to_string(a.tile_rows) + " x " + std::to_string(a.tile_columns)
                             : "") +
         (a.padded > a.depth ? ", padded to depth " + std::to_string(a.padded) : "");
}

namespace {

// Must also print ill-formed kernels, for the verifier's messages.
class Dump : public Printer {
 public:
  Dump(const Module& module, const Kernel& kernel) : Printer(module, kernel) {}
  std::string run() {
    line("kernel " + kernel_.name);
    ++depth_;
    for (const std::string& c : kernel_.comments) line("# " + c);
    for (const ir::BufferId id : kernel_.after) line("after " + module_.buffers[size_t(id)].name);
    for (const ir::BufferId id : kernel_.aligned) line("aligned " + memory_name(id));
    for (const Local& l : kernel_.locals)
      line("local " + l.name + ":" + std::string(caravan::name(l.dtype)) + "[" + std::to_string(l.elements) + "] in " +
           (l.scope == Scope::registers ? "registers"
            : l.scope == Scope::thread  ? "memory"
            : l.scope == Scope::shared  ? "shared memory"
                                        : "a piece") +
           (l.alignment > 0 ? ", aligned to " + std::to_string(l.alignment) + " bytes" : ""));
    print(kernel_.grid);
    for (const Contraction& c : kernel_.contractions) print(c);
    if (const LibraryCall* call = library_call(kernel_)) print(*call);
    if (const Attention* a = attention(kernel_)) print(*a);
    print_block(statements(kernel_));
    return std::move(text_);
  }

 private:
  // "1 slice", "2 slices"
  static std::string count(int64_t n, const std::string& what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  }
  void print(const Grid& g) {
    if (g.lanes > 1) line("groups of " + std::to_string(g.lanes) + " threads" + (g.spread ? ", spread" : ""));
    std::string out;
    if (g.threads > 0) out = "blocks of " + count(g.threads, "thread");
    if (g.shared_bytes > 0) add_to_list(out, std::to_string(g.shared_bytes) + " bytes of shared memory");
    if (g.resident > 0) add_to_list(out, "registers for " + count(g.resident, "block"));
    if (g.narrow) add_to_list(out, "32-bit indices");
    if (g.stage >= 0) add_to_list(out, "stage " + std::to_string(g.stage));
    if (g.launch >= 0) add_to_list(out, "launch " + std::to_string(g.launch));
    if (!out.empty()) line(out);
    if (!module_.in_one_block) return;
    out = g.lanes > 0 ? "from thread " + std::to_string(g.first) : "";
    if (g.waits_before) add_to_list(out, "after a barrier");
    if (!out.empty()) line(out);
  }
  void print(const Contraction& c) {
    static constexpr const char* kUnits[] = {"no tensor cores", "tensor cores in tf32", "tensor cores in bf16",
                                             "tensor cores in f16"};
    line("tiles of " + to_string(c));
    if (c.depth == 0) return;  // not for a GPU
    auto factor = [](const char* name, const Contraction::Factor& f, const char* other) {
      return std::string("; ") + name + " along " + (f.along ? "terms" : other) + ", " +
             (f.copied > 0 ? std::to_string(f.copied) + " bytes a copy" : "computed") + (f.guarded ? ", guarded" : "");
    };
    line("panels of " + count(c.depth, "term") + ", " + kUnits[size_t(c.units)] + ", " + count(c.stages, "stage") +
         ", " + count(c.slices, "slice") + factor("left", c.left, "rows") + factor("right", c.right, "columns"));
  }
  std::string text(const Attention::Rows& rows) const {
    return memory_name(rows.buffer) + "[" + std::to_string(rows.batch) + "*b + " + std::to_string(rows.head) + "*h + " +
           std::to_string(rows.row) + "*r + " + std::to_string(rows.offset) + "]" + (rows.adds_zero ? " plus 0" : "");
  }
  void print(const Attention& a) {
    std::string writes, reads;
    for (const Attention::Rows& rows : a.writes) add_to_list(writes, text(rows));
    for (const Attention::Rows& rows : a.reads) add_to_list(reads, text(rows));
    for (const auto& [id, made_by] : {std::pair(a.totals, Attention::Part::forward),
                                      {a.dots, Attention::Part::rows},
                                      {a.sums, Attention::Part::forward}})
      if (id >= 0) add_to_list(a.part == made_by ? writes : reads, memory_name(id));
    line("for b < " + std::to_string(a.batch) + ", h < " + std::to_string(a.heads) + ":");
    line("  " + writes + " = " + to_string(a) + ", of " + reads);
    std::string how;
    if (a.scale != 1) add_to_list(how, "scores times " + ir::number_text(a.scale));
    if (a.divisor != 0) add_to_list(how, "scores divided by " + ir::number_text(a.divisor));
    if (a.tf32) add_to_list(how, "products in tf32");
    if (a.lanes > 0) add_to_list(how, "vectors of " + std::to_string(a.lanes));
    if (a.kept_rows > 0) add_to_list(how, "weights of " + std::to_string(a.kept_rows) + " rows kept at a time");
    for (const auto& [order, of] :
         {std::pair(a.over_scores, "scores"), {a.over_rows, "rows"}, {a.over_columns, "columns"}}) {
      if (order.block == 0) continue;
      add_to_list(how, std::string("sums over ") + of + " in blocks of " + std::to_string(order.block));
      if (order.slice > 0) how += " and slices of " + std::to_string(order.slice);
    }
    if (a.rooms >= 0) add_to_list(how, "on the way in " + memory_name(a.rooms));
    if (a.chunk > 0) add_to_list(how, "heads parallel by " + std::to_string(a.chunk));
    if (!how.empty()) line("  " + how);
  }
  void print(const LibraryCall& call) {
    if (call.writes.empty() || call.reads.empty()) return line("a call without arguments");
    const std::string to = memory_name(call.writes[0]), from = memory_name(call.reads[0]);
    match(
        call.function,
        [&](const LibraryCall::Copy& copy) { line(to + " = copy(" + from + ", " + std::to_string(copy.bytes) + ")"); },
        [&](const LibraryCall::Product& p) {
          auto element = [](const std::string& buffer, const Term& offset) {
            return buffer + "[" + ir::to_string(offset, {"batch", "row", "column", "term"}, {}, {}) + "]";
          };
          std::string ranges;
          const std::pair<const char*, int64_t> sizes[] = {
              {"batch", p.batch}, {"row", p.rows}, {"column", p.columns}, {"term", p.terms}};
          for (const auto& [variable, size] : sizes)
            if (size > 1) add_to_list(ranges, variable + std::string(" < ") + std::to_string(size));
          line(element(to, p.result) + " = library product of " + element(from, p.left) + " and " +
               element(memory_name(call.reads.back()), p.right) + " for " + ranges + (p.tf32 ? ", in tf32" : ""));
        },
        [&](const LibraryCall::Collective& c) { print(call, std::string(ir::name(c.exchange.kind))); },
        [&](const LibraryCall::Wait&) { print(call, "wait"); });
  }
  void print(const LibraryCall& call, const std::string& function) {
    std::string to, from;
    for (const ir::BufferId id : call.writes) add_to_list(to, memory_name(id));
    for (const ir::BufferId id : call.reads) add_to_list(from, memory_name(id));
    line(to + " = " + function + "(" + from + ")");
  }
  template <class List>
  static bool has(const List& list, int n) {
    return n >= 0 && size_t(n) < list.size();
  }
  std::string memory_name(const Memory& m) const override {
    if (m.is_local())
      return has(kernel_.locals, m.local()) ? kernel_.locals[size_t(m.local())].name
                                            : "local" + std::to_string(m.local());
    return has(module_.buffers, m) ? module_.buffers[size_t(m)].name : "buffer" + std::to_string(ir::BufferId(m));
  }
  std::string variable_name(Variable v) const override {
    return has(kernel_.variables, v) ? kernel_.variables[size_t(v)] : "variable" + std::to_string(v);
  }
  std::string symbol_name(int s) const override {
    return has(module_.symbols, s) ? module_.symbols[size_t(s)].name : "symbol" + std::to_string(s);
  }
  std::string index_register(Register r) const override { return reg(r); }
  static std::string reg(Register r) { return "r" + std::to_string(r); }
  std::string typed(Register r) const {
    if (!has(kernel_.registers, r)) return reg(r);
    const RegisterType& type = kernel_.registers[size_t(r)];
    return reg(r) + ":" + std::string(caravan::name(type.dtype)) +
           (type.width > 1 ? "x" + std::to_string(type.width) : "");
  }
  static std::string symbol(Accumulator accumulator) { return " " + std::string(row(accumulator).symbol) + " "; }

  std::string text(const Constant& v) const { return ir::number_text(v.value); }
  std::string text(const Load& v) const {
    return (v.once ? "once " : v.early ? "early " : "") + element(v.buffer, v.offset);
  }
  std::string text(const IndexValue& v) const { return "index " + index(v.term).text; }
  std::string text(const RandomValue& v) const {
    return "random " + element(v.leaf, v.element) + " at step " + reg(v.step);
  }
  std::string text(const Apply& v) const {
    std::string out = std::string(row(v.op).name) + "(";
    for (int k = 0; k < row(v.op).arity; ++k) out += (k ? ", " : "") + reg(v.args[k]);
    return out + ")" + (row(v.op).result == ResultType::logic ? " in " + std::string(caravan::name(v.compute)) : "");
  }
  std::string text(const Cast& v) const { return "cast " + reg(v.arg) + " to " + std::string(caravan::name(v.to)); }
  std::string text(const Interleave& v) const {
    return std::string("interleave ") + (v.high ? "high " : "low ") + reg(v.first) + ", " + reg(v.second);
  }
  std::string text(const AcrossLanes& v) const {
    return std::string(total_name(v.accumulator)) + " across lanes of " + reg(v.arg);
  }

  void print(const Define& s) override {
    line(typed(s.to) + " = " + std::visit([&](const auto& v) { return text(v); }, s.value));
  }
  void print(const Reset& s) override { line(typed(s.to) + " := " + ir::number_text(s.value)); }
  void print(const Combine& s) override { line(reg(s.to) + symbol(s.accumulator) + product(s)); }
  static std::string product(const OneOf<Combine, StoreCombine> auto& s) {
    return reg(s.value) + (s.factor >= 0 ? " * " + reg(s.factor) + " fused" : "");
  }
  void print(const CombineFirst& s) override {
    line(reg(s.best) + ", " + reg(s.position) + symbol(s.accumulator) + reg(s.value) + " at " + index(s.term).text);
  }
  void print(const Store& s) override { line(element(s.buffer, s.offset) + " = " + reg(s.value)); }
  void print(const StoreCombine& s) override { line(element(s.buffer, s.offset) + symbol(s.accumulator) + product(s)); }
  void print(const StoreFirst& s) override {
    line(element(s.positions, s.offset) + symbol(s.accumulator) + reg(s.value) + " at " + index(s.term).text);
  }
  void print(const Move& s) override {
    const std::string piece = memory_name(Memory::local(s.local)),
                      count =
                          has(kernel_.locals, s.local) ? std::to_string(kernel_.locals[size_t(s.local)].elements) : "?",
                      elements = count + " of " + element(s.buffer, s.offset);
    line(s.store ? elements + " = " + piece : piece + " = " + elements);
  }
  void print(const Barrier&) override { line("barrier"); }
  void print(const Prefetch& s) override {
    line("prefetch " + std::to_string(s.elements) + " of " + element(s.buffer, s.offset) + " into the " +
         (s.nearest ? "nearest" : "second-level") + " cache");
  }
  static std::string blocks(const For& s) {
    std::string out;
    for (int64_t size : s.blocks) out += (out.empty() ? " in blocks of " : ", ") + std::to_string(size);
    return out;
  }
  static std::string hint(const For& s) {
    switch (s.unroll) {
      case Unroll::free: return "";
      case Unroll::full: return " written out";
      case Unroll::some: return s.at_once == 1 ? " not unrolled" : " " + std::to_string(s.at_once) + " at once";
      case Unroll::lanes: return " as vectors";
      case Unroll::never: return " kept";
    }
    return "?";
  }
  // Is it the loop around the rows of a table that blocks of threads share (For::chunk)?
  bool is_around_table(const For& s) const {
    const For* inner = s.body.empty() ? nullptr : std::get_if<For>(&s.body.back());
    return s.kind == LoopKind::grid && inner && inner->kind == LoopKind::rows && kernel_.contractions.empty();
  }
  void print(const For& s) override {
    line("for " + variable_name(s.variable) + " < " + std::to_string(s.extent) +
         (s.kind == LoopKind::serial ? "" : " " + std::string(name(s.kind))) + (s.vector ? " vector" : "") +
         (s.kind == LoopKind::parallel && s.chunk > 0 ? " by " + std::to_string(s.chunk) : "") +
         (is_around_table(s) ? " by " + count(s.chunk, "block") : "") +
         (s.lanes > 0 ? " in " + std::to_string(s.lanes) + " partial sums" : "") + blocks(s) + hint(s) + ":");
    print_inside(s.body);
  }
  void print(const If& s) override {
    std::string out;
    for (const Term& t : s.where) out += (out.empty() ? "if " : " and ") + index(t).text + " >= 0";
    line(out + ":");
    print_inside(s.body);
  }
};

}  // namespace

std::string to_string(const Module& module, const Kernel& kernel) { return Dump(module, kernel).run(); }

namespace {

std::string loops_text(const Block& block, const Kernel& kernel) {
  std::string out;
  for (const Statement& s : block) {
    const std::string text = match(
        s,
        [&](const For& f) {
          std::string loop = kernel.variables[size_t(f.variable)] + " " + std::to_string(f.extent);
          if (f.kind != LoopKind::serial) loop += " " + std::string(name(f.kind));
          const std::string body = loops_text(f.body, kernel);
          return body.empty() ? loop : loop + " (" + body + ")";
        },
        [&](const If& i) { return loops_text(i.body, kernel); }, [](const Simple auto&) { return std::string(); });
    if (!text.empty()) add_to_list(out, text);
  }
  return out;
}

template <class Sizes>  // Contraction, LibraryCall::Product
std::string sizes_text(const Sizes& s) {
  auto text = [](int64_t count, const char* what) { return std::to_string(count) + what; };
  return text(s.rows, " rows, ") + text(s.columns, " columns, ") + text(s.terms, " terms") +
         (s.batch > 1 ? ", " + text(s.batch, " times") : "");
}
std::string call_text(const LibraryCall& call) {
  return match(
      call.function, [](const LibraryCall::Copy&) { return std::string("copy"); },
      [](const LibraryCall::Product& p) { return "library product of " + sizes_text(p); },
      [](const LibraryCall::Collective& c) { return std::string(ir::name(c.exchange.kind)); },
      [](const LibraryCall::Wait&) { return std::string("wait"); });
}

}  // namespace

std::string loops_text(const Kernel& kernel) {
  if (const Attention* a = attention(kernel)) return to_string(*a);
  const LibraryCall* call = library_call(kernel);
  return call ? call_text(*call) : loops_text(statements(kernel), kernel);
}

std::string to_string(const Contraction& c) {
  return std::to_string(c.tile_rows) + " x " + std::to_string(c.tile_columns) + " of " + sizes_text(c);
}

std::string to_string(const Module& module) {
  std::string out;
  if (module.in_one_block) out = "in one block of " + std::to_string(module.block_threads) + " threads\n";
  for (const Kernel& kernel : module.kernels) out += to_string(module, kernel);
  for (const auto& a : module.assignments)
    out += module.buffers[size_t(a.state)].name + " := " + module.buffers[size_t(a.value)].name + "\n";
  return out;
}

}  // namespace caravan::loop
