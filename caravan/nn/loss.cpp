#include "caravan/nn/loss.h"

#include "caravan/base/error.h"
#include "caravan/nn/activation.h"
#include "caravan/nn/phase.h"

namespace caravan::nn {

namespace {

Tensor batch_mean(const Tensor& values) {
  Dim examples;
  Tensor total = einsum("..examples.. | ... -> ... => ", values, {{"examples", examples}});
  return total / examples;
}

// `counts`: what a mean is divided by, element for element; nothing if each counts for one.
Tensor reduced(const Tensor& values, Reduction reduction, const Tensor& counts = {}) {
  switch (reduction) {
    case Reduction::none: return values;
    case Reduction::sum: return sum(values);
    case Reduction::batch_mean: return batch_mean(values);
    case Reduction::mean: break;
  }
  return counts.defined() ? sum(values) / sum(counts) : mean(values);
}

Tensor reduced(const Tensor& values, const LossOptions& o) {
  if (!o.weights) return reduced(values, o.reduction);
  return reduced(values * *o.weights, o.reduction, *o.weights * ones_like(values));
}

bool is_ids(const Operand& targets) { return is_integer(targets.tensor.dtype()); }

Tensor over_classes(Operand values) { return einsum("... | ..., c => ... | ...", values); }
// The target of each position as 0 and 1 over the classes of `values`; an id outside them gives zeros.
Tensor one_hot(Operand ids, Operand values) {
  Dim classes;
  einsum("... | ..., c => ... | ...", values, {{"c", classes}});
  return eq("... | ...; c => ... | ..., c", ids, iota(classes));
}

}  // namespace

Tensor nll(Operand log_probabilities, Operand targets, const CrossEntropyOptions& o) {
  Tensor logp = at_least_f32(log_probabilities);
  const double smooth = o.label_smoothing;
  Tensor weighted = o.class_weights ? logp * *o.class_weights : logp;
  Dim classes;
  Tensor spread = einsum("... | ..., c => ... | ...", weighted, {{"c", classes}}) / classes;  // mean over the classes
  if (!is_ids(targets)) {
    if (o.ignore)
      throw ConfigError("cross_entropy (" + to_string(targets.where) +
                        "): .ignore is an id, but the targets are distributions; give weights of 0 to rows instead.");
    Tensor taken = over_classes(where(targets == 0, 0.0, targets * weighted));
    return reduced(-((1 - smooth) * taken + smooth * spread), o.reduction);
  }
  Tensor hot = one_hot(targets, logp);
  Tensor taken = over_classes(where(hot, weighted, 0.0));
  Tensor loss = smooth == 0 ? -taken : -((1 - smooth) * taken + smooth * spread);
  if (!o.ignore && !o.class_weights) return reduced(loss, o.reduction);
  Tensor counts = o.class_weights ? over_classes(where(hot, *o.class_weights, 0.0)) : ones_like(loss);
  if (!o.ignore) return reduced(loss, o.reduction, counts);
  Tensor counted = targets != *o.ignore;
  return reduced(where(counted, loss, 0.0), o.reduction, where(counted, counts, 0.0));
}
Tensor cross_entropy(Operand logits, Operand targets, const CrossEntropyOptions& o) {
  return nll(Operand(log_softmax(logits), logits.where), targets, o);
}

Tensor mse(Operand prediction, Operand target, const LossOptions& o) { return reduced(square(prediction - target), o); }
Tensor mae(Operand prediction, Operand target, const LossOptions& o) { return reduced(abs(prediction - target), o); }
Tensor huber(Operand prediction, Operand target, double delta, const LossOptions& o) {
  Tensor error = abs(prediction - target);
  return reduced(where(error <= delta, 0.5 * square(error), delta * (error - 0.5 * delta)), o);
}
Tensor hinge(Operand scores, Operand signs, const LossOptions& o) {
  return reduced(relu(1 - Operand(signs * scores, scores.where)), o);
}
Tensor binary_cross_entropy(Operand logits, Operand targets, const LossOptions& o) {
  Tensor loss = softplus(logits) - targets * logits;
  return reduced(o.weights ? loss * *o.weights : loss, o.reduction);
}

}  // namespace caravan::nn
