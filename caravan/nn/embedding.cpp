#include "caravan/nn/embedding.h"

#include "caravan/base/error.h"
#include "caravan/nn/advice.h"
#include "caravan/nn/decode.h"
#include "caravan/tensor/functions.h"
#include "caravan/tensor/graph.h"

namespace caravan::nn {

Embedding::Embedding(std::string n, const EmbeddingOptions& o, Source where) : name(std::move(n)) {
  if (o.num < 1 || o.dim < 1)
    throw ConfigError("embedding `" + name + "`" + where_text(where) + " needs .num and .dim.", where);
  weight = param(name + ".weight", {.batch = {o.num}, .output = {o.dim}, .init = o.init, .dtype = o.dtype}, where);
}
Tensor Embedding::operator()(Operand ids) const {
  const Call call = Call::layer("embedding " + name, {{"the ids", ids}});
  return gather(Operand(weight, ids.where), ids, RowKind::batch).named("embedding " + name);
}

Tensor tied_head(Operand x, const Embedding& table, const Phase& phase) {
  return einsum("... | c; v | c => ... | v", phase.in_precision(x), phase.in_precision(table.weight))
      .named("linear " + table.name);
}

namespace {
// Position t times base^(-p / pairs), in the precision of x.
Tensor angles(const Operand& x, const Tensor& t, const Dim& pairs, double base) {
  const DType dtype = at_least_f32(x).dtype();
  return einsum("..., t |; p => ..., t | p", cast(t, dtype), pow(base, -cast(iota(pairs), dtype) / pairs));
}
}  // namespace

Tensor LearnedPositions::operator()(Operand x, const Phase& phase) const {
  const int64_t most = table.weight.node().state()->batch.extents.at(0).size;
  const Call call = Call::layer("positions " + table.name, {{"x", x}}, [most](const CallRecord::Shapes& shapes) {
    return is_sequence(shapes, most, "has " + std::to_string(most) + " positions (.num, the .ctx of a Gpt)");
  });
  // A window of the size of x fits into the table, or inference refuses: on a device ids beyond it would be zeros.
  Dim steps;
  einsum(spec("rest+steps | c => rest, steps, c", x.where), table.weight, {{"steps", steps}});
  Tensor in = einsum("..., t | c => ..., t | c", x, {{"t", steps}});
  return Operand(in, x.where) + table(positions(x, phase));
}

Tensor SinusoidalPositions::operator()(Operand x, const Phase& phase) const {
  const Call call = Call::layer("sinusoidal_positions", {{"x", x}}, is_any_sequence);
  Dim pairs;
  einsum("..., t | p&two => two", x, {{"p", pairs}, {"two", 2}});
  Tensor angle = angles(x, positions(x, phase), pairs, base);
  return x + einsum("..., t | two, p => ..., t | p&two", stack({sin(angle), cos(angle)}));
}

Tensor rotary(Operand x, const RotaryOptions& o, const Phase& phase) {
  const Call call = Call::function("nn::rotary", {{"x", x}});
  const char* split = o.halves ? "..., t | h, two&p => ..., t | two, h, p" : "..., t | h, p&two => ..., t | two, h, p";
  const char* merge = o.halves ? "..., t | two, h, p => ..., t | h, two&p" : "..., t | two, h, p => ..., t | h, p&two";
  Dim pairs;
  Tensor xy = einsum(spec(split, x.where), x, {{"two", 2}, {"p", pairs}});
  Tensor x0 = einsum("... | 0, h, p => ... | h, p", xy), y0 = einsum("... | 1, h, p => ... | h, p", xy);
  Tensor t = o.first ? positions(x, phase) + *o.first : positions(x, phase);
  Tensor angle = angles(x, t, pairs, o.base), c = cos(angle), s = sin(angle);
  return einsum(spec(merge, x.where), stack({x0 * c - y0 * s, x0 * s + y0 * c}));
}

}  // namespace caravan::nn
