#include "caravan/nn/decode.h"

#include "caravan/tensor/functions.h"

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

Tensor remembered(Operand x, const std::string& name, const Phase& phase) {
  const DecodingOptions* decoding = phase.decoding();
  if (!decoding) return x.tensor;
  Tensor cache = state_like(einsum(spec("..., _ | h, d => t, ... | h, d", x.where), x, {{"t", decoding->capacity}}),
                            name, zeros(), x.where);
  if (decoding->at) {
    Tensor now =
        update(cache, *decoding->at, Operand(einsum("..., 0 | h, d => ... | h, d", x), x.where)).assignments()[0].value;
    phase.update(cache, Operand(now, x.where));
    return einsum("t, ... | h, d => ..., t | h, d", now);
  }
  const int64_t rest = decoding->capacity - decoding->prompt;  // positions that stay empty
  const std::string axis = rest ? "t^" + std::to_string(rest) : "t";
  phase.update(cache, Operand(einsum(spec("..., t | h, d => " + axis + ", ... | h, d", x.where), x), x.where));
  return x.tensor;
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
