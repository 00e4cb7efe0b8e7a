#include "caravan/nn/activation.h"

#include "caravan/nn/phase.h"

namespace caravan::nn {

namespace {
constexpr const char* kLastAxis = "... | ..., c => ... | ..., 0";
}

Tensor softmax(Spec<1> spec, Operand x) {
  Tensor logits = at_least_f32(x);
  Tensor e = exp(Operand(logits, x.where) - stop_gradient(einmax(spec, logits)));
  return e / einsum(spec, e);
}
Tensor log_softmax(Spec<1> spec, Operand x) {
  Tensor logits = at_least_f32(x);
  Tensor shifted = Operand(logits, x.where) - stop_gradient(einmax(spec, logits));
  return shifted - log(einsum(spec, exp(shifted)));
}
Tensor softmax(Operand x) { return softmax(spec(kLastAxis, x.where), x); }
Tensor log_softmax(Operand x) { return log_softmax(spec(kLastAxis, x.where), x); }

}  // namespace caravan::nn
