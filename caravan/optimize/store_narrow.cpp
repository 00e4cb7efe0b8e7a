#include "caravan/optimize/store_narrow.h"

#include <algorithm>
#include <map>
#include <optional>

#include "caravan/optimize/inline_producers.h"
#include "caravan/optimize/reads.h"
#include "caravan/optimize/simplify.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::Body;
using ir::BufferId;
using ir::Scalar;

namespace {

// The narrower precision to which the result of the body is rounded before it is cast to the precision of the target.
std::optional<DType> rounded_to(const ir::Program& program, const Accumulation& a) {
  const Scalar& last = a.body.entries().back();
  if (last.kind != Scalar::Kind::cast) return std::nullopt;
  const Scalar& inner = a.body.entries()[size_t(last.args[0])];
  const bool widens = is_float(inner.dtype) && holds_all(last.dtype, inner.dtype);
  if (inner.kind != Scalar::Kind::cast || !widens) return std::nullopt;
  return program.buffers[size_t(a.target)].dtype == last.dtype ? std::optional(inner.dtype) : std::nullopt;
}

// The body with each of these operands, which has become narrower, cast to the precision that it had.
Body widened(const Accumulation& a, const std::map<BufferId, DType>& before) {
  Body out;
  std::vector<int> wide;  // the entry for each operand; -1: its load as it is
  for (size_t k = 0; k < a.operands.size(); ++k) {
    const auto at = before.find(a.operands[k].buffer);
    wide.push_back(at == before.end() ? -1 : out.cast(at->second, out.load(int(k))));
  }
  out.finish(out.add(a.body, [&](int e) {
    const Scalar& entry = a.body.entries()[size_t(e)];
    return entry.kind == Scalar::Kind::load ? wide[size_t(entry.operand)] : -1;
  }));
  return out;
}

}  // namespace

ir::Program store_narrow(const ir::Program& program) {
  std::map<BufferId, int> writers;  // and other reasons why a tensor stays as it is
  for (const Accumulation& a : program.accumulations) {
    ++writers[a.target];
    if (a.collective) ++writers[a.operands[0].buffer];  // it is sent as it is
  }
  for (const BufferId id : program.observed) ++writers[id];
  for (const ir::Assignment& a : program.assignments) ++writers[a.value];

  ir::Program out = program;
  std::map<BufferId, DType> before;  // the precision of tensors that become narrower
  for (Accumulation& a : out.accumulations) {
    ir::Buffer& target = out.buffers[size_t(a.target)];
    if (writers[a.target] != 1 || !std::holds_alternative<ir::Computed>(target.kind) || !is_elementwise(program, a))
      continue;
    const std::optional<DType> narrow = rounded_to(program, a);
    if (!narrow) continue;
    before[a.target] = target.dtype;
    target.dtype = *narrow;
    a.body.finish(a.body.entries().back().args[0]);
  }
  if (before.empty()) return out;
  for (Accumulation& a : out.accumulations)
    if (std::any_of(a.operands.begin(), a.operands.end(), [&](const auto& o) { return before.count(o.buffer) > 0; }))
      a.body = widened(a, before);
  return simplify(inline_copies(simplify(out)));  // what was a cast to f32 and is now a copy is not stored
}

}  // namespace caravan::optimize
