#include "caravan/nn/decode.h"

#include "caravan/tensor/functions.h"
#include "caravan/tensor/graph.h"

namespace caravan::nn {

bool decodes_token(const Phase& phase) { return phase.decoding() && phase.decoding()->at; }

Tensor positions(Operand x, const Phase& phase) {
  Dim steps;
  einsum(spec("..., t | ... => t", x.where), x, {{"t", steps}});
  const DecodingOptions* decoding = phase.decoding();
  if (!decoding) return einsum("t => t |", iota(steps));
  Tensor out = decoding->first ? outer_sum("... |; t => ..., t |", -*decoding->first, iota(steps))
                               : einsum("t => t |", iota(steps));
  if (decoding->at) out = out + *decoding->at;
  return decoding->first ? max(out, 0) : out;  // padding is before the first token, where there is no position
}

namespace {

// Where the axis `t` of the positions stands in a cache: `t, ... | h, d` or `... | h, d, t`.
std::string cache_axes(const std::string& t, bool by_channel) {
  return by_channel ? "... | h, d, " + t : t + ", ... | h, d";
}

Tensor cached(Operand x, const std::string& name, const Phase& phase, bool by_channel) {
  const DecodingOptions* decoding = phase.decoding();
  if (!decoding) return x.tensor;
  const std::string axes = cache_axes("t", by_channel);
  Tensor cache = state_like(einsum(spec("..., _ | h, d => " + axes, x.where), x, {{"t", decoding->capacity}}), name,
                            zeros(), x.where);
  if (decoding->at) {
    const Operand token(einsum("..., 0 | h, d => ... | h, d", x), x.where);
    const Tensor now = with_slice(cache, *decoding->at, token, "t", "... | h, d", axes);
    phase.update(cache, Operand(now, x.where));
    return einsum(spec(axes + " => ..., t | h, d", x.where), now);
  }
  const int64_t rest = decoding->capacity - decoding->prompt;  // positions that stay empty
  const std::string filled = cache_axes(rest ? "t^" + std::to_string(rest) : "t", by_channel);
  phase.update(cache, Operand(einsum(spec("..., t | h, d => " + filled, x.where), x), x.where));
  return x.tensor;
}

}  // namespace

Tensor remembered(Operand x, const std::string& name, const Phase& phase) { return cached(x, name, phase, false); }
Tensor remembered_by_channel(Operand x, const std::string& name, const Phase& phase) {
  return cached(x, name, phase, true);
}

OptionalOperand visible(Operand q, Operand k, const Phase& phase) {
  const DecodingOptions* decoding = phase.decoding();
  if (!decoding || (!decoding->at && !decoding->first)) return {};
  Dim s, t;
  einsum(spec("..., s | h, d => s", q.where), q, {{"s", s}});
  einsum(spec("..., t | h, d => t", k.where), k, {{"t", t}});
  OptionalOperand out;
  if (decoding->at) out = Operand(einsum("t => s | t ->", iota(t), {{"s", s}}) <= *decoding->at, k.where);
  if (!decoding->first) return out;
  Tensor begun = outer_sum("... |; t => ..., s | t ->", -*decoding->first, iota(t), {{"s", s}}) >= 0;
  return Operand(out ? *out && begun : begun, k.where);
}

}  // namespace caravan::nn
