#include "caravan/nn/activation.h"

#include <algorithm>

#include "caravan/base/error.h"
#include "caravan/nn/advice.h"
#include "caravan/nn/phase.h"
#include "caravan/tensor/functions.h"

namespace caravan::nn {

namespace {
constexpr const char* kLastAxis = "... | ..., c => ... | ..., 0";
}

namespace {

// The axes that a softmax runs over are kept as 0, so that the result can be put beside what it came from.
void check_keeps(const Spec<1>& spec, const Operand& x) {
  const std::string text(spec.syntax_ref().text), result = text.substr(std::min(text.find("=>"), text.size()));
  if (result.find('0') == result.npos)
    throw ConfigError("softmax" + where_text(x.where) + " with `" + text +
                          "` runs over nothing: write 0 for each axis it runs over, as in `b | c => b | 0`.",
                      x.where);
}

}  // namespace

Tensor softmax(Spec<1> spec, Operand x) {
  check_keeps(spec, x);
  const WrittenAt at(x.where);
  Tensor logits = at_least_f32(x);
  Tensor e = exp(Operand(logits, x.where) - stop_gradient(einmax(spec, logits)));
  return e / einsum(spec, e);
}
Tensor log_softmax(Spec<1> spec, Operand x) {
  check_keeps(spec, x);
  const WrittenAt at(x.where);
  Tensor logits = at_least_f32(x);
  Tensor shifted = Operand(logits, x.where) - stop_gradient(einmax(spec, logits));
  return shifted - log(einsum(spec, exp(shifted)));
}
Tensor softmax(Operand x) {
  const Call call = Call::function("nn::softmax", {{"x", x}}, has_last_axis);
  return softmax(spec(kLastAxis, x.where), x);
}
Tensor log_softmax(Operand x) {
  const Call call = Call::function("nn::log_softmax", {{"x", x}}, has_last_axis);
  return log_softmax(spec(kLastAxis, x.where), x);
}

}  // namespace caravan::nn
