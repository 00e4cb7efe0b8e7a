#include "caravan/nn/attention.h"

#include "caravan/base/error.h"
#include "caravan/nn/advice.h"
#include "caravan/nn/decode.h"
#include "caravan/tensor/functions.h"

namespace caravan::nn {

namespace {

Tensor checked(const Operand& mask) {
  if (mask.tensor.dtype() != DType::boolean)
    throw DTypeError(
        "the mask `" + mask.tensor.name() + "`" + where_text(mask.where) + " is " +
            std::string(name(mask.tensor.dtype())) +
            ", but a mask must be boolean, true where a position may be seen; write `mask > -1` for one that "
            "is added, 0 or -inf.",
        mask.where);
  return mask.tensor;
}

}  // namespace

Tensor attend(Operand q, Operand k, Operand v, const AttendOptions& o, const Phase& phase) {
  const Call call = Call::function("nn::attend", {{"q", q}, {"k", k}, {"v", v}}, have_heads);
  constexpr double kNever = -1e30;  // finite: a row of nothing else is uniform, not NaN
  Dim d, s, t;
  for (Operand* x : {&q, &k, &v}) x->tensor = phase.in_precision(*x);
  Tensor products =
      einsum("..., s | h&g, d; ..., t | h, d => ..., s | t -> h, g", q, k, {{"d", d}, {"s", s}, {"t", t}});
  Tensor scores = at_least_f32(products) / sqrt(d);
  if (o.causal) scores = where(einsum("=> s | t ->", 1, {{"s", s}, {"t", t}, {"t <= s"}}), scores, kNever);
  if (o.mask) scores = where(checked(*o.mask), scores, kNever);
  Tensor weights = softmax("..., s | t -> h, g => ..., s | 0 -> h, g", scores);
  if (o.dropout) weights = (*o.dropout)(weights, phase);
  return einsum("..., s | t -> h, g; ..., t | h, d => ..., s | h&g, d", phase.in_precision(weights), v);
}

namespace {

// `count` heads of `... | heads, d`, those before and after left out.
Tensor heads_of(Operand x, int64_t before, int64_t after) {
  const std::string first = before ? std::to_string(before) + "^" : "", last = after ? "^" + std::to_string(after) : "";
  if (first.empty() && last.empty()) return x.tensor;
  return einsum(spec("... | " + first + "h" + last + ", d => ... | h, d", x.where), x);
}

AttentionOptions checked(const std::string& name, AttentionOptions o, Source where) {
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  if (o.dim < 1 || o.heads < 1 || o.kv_heads < 1 || o.dim % o.heads != 0 || o.heads % o.kv_heads != 0)
    throw ConfigError("attention `" + name + "`" + where_text(where) + " has .dim " + std::to_string(o.dim) +
                          ", .heads " + std::to_string(o.heads) + " and .kv_heads " + std::to_string(o.kv_heads) +
                          "; heads must divide dim, and kv_heads must divide heads.",
                      where);
  return o;
}
// NAME of NAME.proj
std::string name_of(const Linear& proj) { return proj.name.substr(0, proj.name.rfind('.')); }
std::vector<CallArgument> arguments(const Operand& x, const OptionalOperand& mask) {
  std::vector<CallArgument> out = {{"x", x}};
  if (mask) out.push_back({"the mask", *mask});
  return out;
}
LinearOptions to_heads(const AttentionOptions& o, int64_t heads, GivenRow input = {}) {
  return {.output = {heads, o.dim / o.heads}, .input = input, .bias = o.bias, .init = o.init, .dtype = o.dtype};
}
LinearOptions from_heads(const AttentionOptions& o) {
  return {.output = {o.dim}, .bias = o.proj_bias, .init = o.init, .dtype = o.dtype};
}

}  // namespace

SelfAttention::SelfAttention(const std::string& name, const AttentionOptions& given, Source where)
    : options(checked(name, given, where)),
      qkv(name + ".qkv", to_heads(options, options.heads + 2 * options.kv_heads, {options.dim}), where),
      proj(name + ".proj", from_heads(options), where),
      dropout(name + ".dropout", given.dropout, where) {}
Tensor SelfAttention::operator()(Operand x, const OptionalOperand& mask, const Phase& phase) const {
  const Call call = Call::layer("attention " + name_of(proj), arguments(x, mask), is_any_sequence);
  const int64_t queries = options.heads, keys = options.kv_heads;
  Tensor all = qkv(x, phase);
  Tensor q = heads_of(all, 0, 2 * keys), k = heads_of(all, queries, keys), v = heads_of(all, queries + keys, 0);
  if (options.rotary) q = rotary(q, *options.rotary, phase), k = rotary(k, *options.rotary, phase);
  if (phase.decoding() && !options.causal)
    throw ConfigError("attention `" + name_of(proj) + "`" + where_text(x.where) +
                          " is not causal, so it sees tokens that are not there yet: give it .causal = true to decode.",
                      x.where);
  const std::string name = name_of(proj);
  k = remembered_by_channel(k, name + ".keys", phase), v = remembered(v, name + ".values", phase);
  OptionalOperand seen = visible(q, k, phase);
  if (mask) seen = seen ? Operand(*seen && *mask, x.where) : *mask;
  const bool causal = options.causal && !decodes_token(phase);
  return proj(attend(q, k, v, {causal, seen, dropout}, phase).named("attention " + qkv.name), phase);
}

CrossAttention::CrossAttention(const std::string& name, const AttentionOptions& given, Source where)
    : options(checked(name, given, where)),
      q(name + ".q", to_heads(options, options.heads, {options.dim}), where),
      kv(name + ".kv", to_heads(options, 2 * options.kv_heads), where),
      proj(name + ".proj", from_heads(options), where),
      dropout(name + ".dropout", given.dropout, where) {}
Tensor CrossAttention::operator()(Operand x, Operand memory, const OptionalOperand& mask, const Phase& phase) const {
  const Call call = Call::layer("attention " + name_of(proj), arguments(x, mask), is_any_sequence);
  Tensor both = kv(memory, phase), k = heads_of(both, 0, options.kv_heads), v = heads_of(both, options.kv_heads, 0);
  return proj(attend(q(x, phase), k, v, {options.causal, mask, dropout}, phase).named("attention " + q.name), phase);
}

}  // namespace caravan::nn
