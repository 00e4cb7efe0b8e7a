#include "caravan/loop/loop.h"

namespace caravan::loop {

DType wide(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype; }

bool operator==(const For& a, const For& b) {
  return a.variable == b.variable && a.extent == b.extent && a.kind == b.kind && a.chunk == b.chunk &&
         a.lanes == b.lanes && a.blocks == b.blocks && a.unroll == b.unroll && a.at_once == b.at_once &&
         a.group == b.group && a.vector == b.vector && a.body == b.body;
}
bool operator==(const If& a, const If& b) { return a.where == b.where && a.body == b.body; }

const Block& statements(const Kernel& kernel) {
  static const Block none;
  auto* block = std::get_if<Block>(&kernel.body);
  return block ? *block : none;
}
Block& statements(Kernel& kernel) { return std::get<Block>(kernel.body); }

const For* parallel_loop(const Kernel& kernel) {
  const Block& block = statements(kernel);
  auto* loop = block.empty() ? nullptr : std::get_if<For>(&block.back());
  return loop && loop->kind == LoopKind::parallel ? loop : nullptr;
}
int64_t parallel_iterations(const For& loop) {
  if (loop.kind != LoopKind::parallel) return 1;
  auto* inner = loop.body.size() == 1 ? std::get_if<For>(&loop.body[0]) : nullptr;
  return loop.extent * (inner ? parallel_iterations(*inner) : 1);
}
int64_t chunks(const Attention& a) { return a.chunk > 0 ? (a.batch * a.heads + a.chunk - 1) / a.chunk : 1; }
std::optional<Shares> shares(const Kernel& kernel) {
  if (const For* loop = parallel_loop(kernel)) return Shares{parallel_iterations(*loop), loop->chunk};
  const Attention* a = attention(kernel);
  return a && a->chunk > 0 ? std::optional(Shares{a->batch * a->heads, a->chunk}) : std::nullopt;
}

}  // namespace caravan::loop
