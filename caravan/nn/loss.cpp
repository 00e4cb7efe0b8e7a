#include "caravan/nn/loss.h"

#include <fmt/format.h>

#include "caravan/base/error.h"
#include "caravan/nn/activation.h"
#include "caravan/nn/advice.h"
#include "caravan/nn/phase.h"
#include "caravan/tensor/functions.h"

namespace caravan::nn {

namespace {

Tensor batch_mean(const Tensor& values) {
  Dim examples;
  Tensor total = einsum("..examples.. | ... -> ... => ", values, {{"examples", examples}});
  return total / examples;
}

// `counts`: what a mean is divided by, element for element; nothing if each counts for one.
Tensor reduced(const Tensor& each, Reduction reduction, const Tensor& counts = {}) {
  const Tensor values = at_least_f32(each);
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

// The sum of `values` over the classes with these weights, which have the same shape.
Tensor over_classes(Operand weights, Operand values) {
  return einsum("... | ..., c; ... | ..., c => ... | ...", weights, values);
}
// 1 for every position. Read by their ids, so that ids that the host gave are checked like those of any table.
Tensor checked(Operand ids, const Dim& classes) {
  return gather(einsum("=> c ->", 1.0, {{"c", classes}}).named("classes"), ids).named(Call::current()->name);
}

// a * b of one shape: nothing is broadcast.
Tensor product(Operand a, Operand b) { return mul("... | ... -> ...; ... | ... -> ... => ... | ... -> ...", a, b); }
// a - b of one shape, likewise. The difference of two bytes is no byte, and squares of integers overflow.
Tensor difference(Operand a, Operand b) {
  for (Operand* x : {&a, &b})
    if (!is_float(x->tensor.dtype())) x->tensor = at_least_f32(*x);
  return outer_sum("... | ... -> ...; ... | ... -> ... => ... | ... -> ...", a, Operand(-b, b.where));
}
void check_smoothing(double share, Source where) {
  if (!(share >= 0 && share <= 1))
    throw ConfigError(fmt::format("`{}`{}: .label_smoothing is {}, but is a share, 0 to 1.", Call::current()->name,
                                  where_text(where), share),
                      where);
}

Call of_two(const char* name, const char* first, const Operand& a, const char* second, const Operand& b) {
  return Call::function(name, {{first, a}, {second, b}},
                        [=](const CallRecord::Shapes& shapes) { return are_equal(shapes, first, second); });
}

}  // namespace

Tensor nll(Operand log_probabilities, Operand targets, const CrossEntropyOptions& o) {
  const Call call = Call::function("nn::nll", {{"the log probabilities", log_probabilities}, {"the targets", targets}},
                                   [dtype = targets.tensor.dtype()](const CallRecord::Shapes& shapes) {
                                     return are_targets(shapes, "log probabilities", dtype);
                                   });
  Tensor logp = at_least_f32(log_probabilities);
  const double smooth = o.label_smoothing;
  check_smoothing(smooth, log_probabilities.where);
  Tensor weighted = o.class_weights ? einsum("... | ..., c; c => ... | ..., c", logp, *o.class_weights) : logp;
  Dim classes;
  Tensor spread = einsum("... | ..., c => ... | ...", weighted, {{"c", classes}}) / classes;  // mean over the classes
  if (!is_ids(targets)) {
    if (o.ignore)
      throw ConfigError("`" + Call::current()->name + "`" + where_text(targets.where) +
                            ": .ignore is an id, but the targets are distributions; give weights of 0 to rows instead.",
                        targets.where);
    Tensor taken =
        over_classes(targets, where("... | ..., c;; ... | ..., c => ... | ..., c", targets == 0, 0.0, weighted));
    return reduced(-((1 - smooth) * taken + smooth * spread), o.reduction);
  }
  Tensor hot = eq("... | ...; c => ... | ..., c", targets, iota(classes));  // an id outside the classes gives zeros
  Tensor ones = cast(hot, logp.dtype());
  Tensor taken = over_classes(ones, where("... | ..., c; ... | ..., c; => ... | ..., c", hot, weighted, 0.0));
  if (!o.ignore) taken = taken * checked(targets, classes);
  Tensor loss = smooth == 0 ? -taken : -((1 - smooth) * taken + smooth * spread);
  if (!o.ignore && !o.class_weights) return reduced(loss, o.reduction);
  Tensor counts = o.class_weights ? einsum("... | ..., c; c => ... | ...", ones, *o.class_weights) : ones_like(loss);
  if (!o.ignore) return reduced(loss, o.reduction, counts);
  Tensor counted = targets != *o.ignore;
  return reduced(where(counted, loss, 0.0), o.reduction, where(counted, counts, 0.0));
}
Tensor cross_entropy(Operand logits, Operand targets, const CrossEntropyOptions& o) {
  const Call call = Call::function("nn::cross_entropy", {{"the logits", logits}, {"the targets", targets}},
                                   [dtype = targets.tensor.dtype()](const CallRecord::Shapes& shapes) {
                                     return are_targets(shapes, "logits", dtype);
                                   });
  return nll(Operand(log_softmax(logits), logits.where), targets, o);
}

Tensor mse(Operand prediction, Operand target, const LossOptions& o) {
  const Call call = of_two("nn::mse", "the prediction", prediction, "the target", target);
  return reduced(square(difference(prediction, target)), o);
}
Tensor mae(Operand prediction, Operand target, const LossOptions& o) {
  const Call call = of_two("nn::mae", "the prediction", prediction, "the target", target);
  return reduced(abs(difference(prediction, target)), o);
}
Tensor huber(Operand prediction, Operand target, double delta, const LossOptions& o) {
  const Call call = of_two("nn::huber", "the prediction", prediction, "the target", target);
  if (!(delta > 0))
    throw ConfigError(
        fmt::format("`nn::huber`{}: delta is {}, but must be above 0.", where_text(prediction.where), delta),
        prediction.where);
  Tensor error = abs(difference(prediction, target));
  return reduced(where(error <= delta, 0.5 * square(error), delta * (error - 0.5 * delta)), o);
}
Tensor hinge(Operand scores, Operand signs, const LossOptions& o) {
  const Call call = of_two("nn::hinge", "the scores", scores, "the signs", signs);
  // The signs are negated first, so that shapes which do not fit meet here, and not in the model that made the scores.
  return reduced(relu(1 + Operand(product(scores, Operand(-signs, signs.where)), scores.where)), o);
}
Tensor binary_cross_entropy(Operand logits, Operand targets, const LossOptions& o) {
  const Call call = of_two("nn::binary_cross_entropy", "the logits", logits, "the targets", targets);
  // Nothing large is subtracted.
  Tensor loss = product(targets, Operand(softplus(-logits), logits.where)) + (1 - targets) * softplus(logits);
  return reduced(o.weights ? loss * *o.weights : loss, o.reduction);
}

}  // namespace caravan::nn
