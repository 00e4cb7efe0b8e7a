// Kernels as text:
//
//     kernel relu
//       # relu[b0, o0] += relu(apply[b0, o0] + b1[o0])   for b0 < 10, o0 < 16
//       for b0 < 10:
//         for o0 < 16:
//           r0:f32 = apply[16*b0 + o0]
//           ...
//           relu[16*b0 + o0] = r3
#include "caravan/ir/text.h"
#include "caravan/loop/loop.h"
#include "caravan/loop/walk.h"

namespace caravan::loop {

std::string_view name(LoopKind kind) {
  switch (kind) {
    case LoopKind::serial: return "serial";
    case LoopKind::parallel: return "parallel";
    case LoopKind::vector: return "vector";
    case LoopKind::unrolled: return "unrolled";
  }
  return "?";
}

DType wide(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype; }

bool operator==(const For& a, const For& b) {
  return a.variable == b.variable && a.extent == b.extent && a.kind == b.kind && a.chunk == b.chunk &&
         a.lanes == b.lanes && a.blocks == b.blocks && a.body == b.body;
}
bool operator==(const If& a, const If& b) { return a.where == b.where && a.body == b.body; }

const For* parallel_loop(const Kernel& kernel) {
  auto* loop = kernel.body.empty() ? nullptr : std::get_if<For>(&kernel.body.back());
  return loop && loop->kind == LoopKind::parallel ? loop : nullptr;
}

namespace {

class Printer {
 public:
  Printer(const Module& module, const Kernel& kernel) : module_(module), kernel_(kernel) {
    for (const ir::Symbol& s : module.symbols) symbols_.push_back(s.name);
    for (size_t r = 0; r < kernel.registers.size(); ++r) registers_.push_back("r" + std::to_string(r));
  }
  std::string run() {
    out_ = "kernel " + kernel_.name + "\n";
    for (const std::string& c : kernel_.comments) out_ += "  # " + c + "\n";
    print(kernel_.body, 1);
    return std::move(out_);
  }

 private:
  // Also of ill-formed kernels, which the verifier prints.
  std::string term(const Term& t) const { return ir::to_string(t, kernel_.variables, symbols_, registers_); }
  std::string element(ir::BufferId id, const Term& t) const { return buffer(id) + "[" + term(t) + "]"; }
  std::string buffer(ir::BufferId id) const {
    return id >= 0 && size_t(id) < module_.buffers.size() ? module_.buffers[size_t(id)].name
                                                          : "buffer" + std::to_string(id);
  }
  std::string variable(Variable v) const {
    return v >= 0 && size_t(v) < kernel_.variables.size() ? kernel_.variables[size_t(v)]
                                                          : "variable" + std::to_string(v);
  }
  static std::string reg(Register r) { return "r" + std::to_string(r); }
  std::string typed(Register r) const {
    return reg(r) + (r >= 0 && size_t(r) < kernel_.registers.size()
                         ? ":" + std::string(caravan::name(kernel_.registers[size_t(r)]))
                         : "");
  }

  std::string text(const Constant& v) const { return ir::number_text(v.value); }
  std::string text(const Load& v) const { return element(v.buffer, v.offset); }
  std::string text(const IndexValue& v) const { return "index " + term(v.term); }
  std::string text(const RandomValue& v) const {
    return "random " + element(v.leaf, v.element) + " at step " + reg(v.step);
  }
  std::string text(const Apply& v) const {
    std::string out = std::string(row(v.op).name) + "(";
    for (int k = 0; k < row(v.op).arity; ++k) out += (k ? ", " : "") + reg(v.args[k]);
    return out + ")" + (row(v.op).result == ResultType::logic ? " in " + std::string(caravan::name(v.compute)) : "");
  }
  std::string text(const Cast& v) const { return "cast " + reg(v.arg) + " to " + std::string(caravan::name(v.to)); }

  std::string line(const Define& s) const {
    return typed(s.to) + " = " + std::visit([&](const auto& v) { return text(v); }, s.value);
  }
  std::string line(const Reset& s) const { return typed(s.to) + " := " + ir::number_text(s.value); }
  std::string line(const Combine& s) const {
    return reg(s.to) + " " + std::string(row(s.accumulator).symbol) + " " + reg(s.value);
  }
  std::string line(const CombineFirst& s) const {
    return reg(s.best) + ", " + reg(s.position) + " " + std::string(row(s.accumulator).symbol) + " " + reg(s.value) +
           " at " + term(s.term);
  }
  std::string line(const Store& s) const { return element(s.buffer, s.offset) + " = " + reg(s.value); }
  std::string line(const StoreCombine& s) const {
    return element(s.buffer, s.offset) + " " + std::string(row(s.accumulator).symbol) + " " + reg(s.value);
  }
  std::string line(const StoreFirst& s) const {
    return element(s.positions, s.offset) + " " + std::string(row(s.accumulator).symbol) + " " + reg(s.value) + " at " +
           term(s.term);
  }
  static std::string blocks(const For& s) {
    std::string out;
    for (int64_t size : s.blocks) out += (out.empty() ? " in blocks of " : ", ") + std::to_string(size);
    return out;
  }
  std::string line(const For& s) const {
    return "for " + variable(s.variable) + " < " + std::to_string(s.extent) +
           (s.kind == LoopKind::serial ? "" : " " + std::string(name(s.kind))) +
           (s.chunk > 0 ? " by " + std::to_string(s.chunk) : "") +
           (s.lanes > 0 ? " in " + std::to_string(s.lanes) + " partial sums" : "") + blocks(s) + ":";
  }
  std::string line(const If& s) const {
    std::string out;
    for (const Term& t : s.where) out += (out.empty() ? "if " : " and ") + term(t) + " >= 0";
    return out + ":";
  }

  void print(const Block& block, int depth) {
    for (const Statement& s : block) {
      out_ += std::string(size_t(depth) * 2, ' ') + std::visit([&](const auto& x) { return line(x); }, s) + "\n";
      if (const Block* within = inside(s)) print(*within, depth + 1);
    }
  }

  const Module& module_;
  const Kernel& kernel_;
  std::vector<std::string> symbols_, registers_;
  std::string out_;
};

}  // namespace

std::string to_string(const Module& module, const Kernel& kernel) { return Printer(module, kernel).run(); }

std::string to_string(const Module& module) {
  std::string out;
  for (const Kernel& kernel : module.kernels) out += to_string(module, kernel);
  for (const auto& a : module.assignments)
    out += module.buffers[size_t(a.state)].name + " := " + module.buffers[size_t(a.value)].name + "\n";
  return out;
}

}  // namespace caravan::loop
