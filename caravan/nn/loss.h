// Losses, stable, from logits where there are any; one number unless the reduction is none:
//
//     Tensor loss = cross_entropy(model(x), labels, {.label_smoothing = 0.1, .ignore = -100});
#pragma once

#include <optional>

#include "caravan/tensor/tensor.h"

namespace caravan::nn {

// How the losses of all positions become one number.
enum class Reduction : uint8_t {
  mean,  // over all elements; weighted: divided by the sum of the weights
  sum,
  batch_mean,  // the sum divided by the number of examples, the product of the batch axes
  none,        // one value for each element or position
};

// `classes` is the last output axis of the logits. Targets of an integer type are ids, one for each position (out of
// range they are refused as those of a table are); others are distributions, of the logits' shape. PyTorch's meanings:
// a mean over ids is divided by the weights of the targets that count; a mean over distributions by the number of
// positions.
struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;  // how the values of all positions become one
  OptionalOperand class_weights{};        // one for each class
  double label_smoothing = 0;             // this share of each target is spread evenly over all classes
  std::optional<int64_t> ignore{};        // positions with this id do not count
};
// -log of the probability that softmax(logits) gives to the target.
Tensor cross_entropy(Operand logits, Operand targets, const CrossEntropyOptions& options = {});
// The same from log_softmax(logits).
Tensor nll(Operand log_probabilities, Operand ids, const CrossEntropyOptions& options = {});

// Weights, and how elements become one number.
struct LossOptions {
  Reduction reduction = Reduction::mean;  // how the values of all positions become one
  OptionalOperand weights{};              // one for each element, or for each example
};
Tensor mse(Operand prediction, Operand target, const LossOptions& options = {});  // the mean of (prediction - target)²
Tensor mae(Operand prediction, Operand target, const LossOptions& options = {});  // the mean of |prediction - target|
// Half the squared error up to `delta`, a straight line beyond.
Tensor huber(Operand prediction, Operand target, double delta = 1, const LossOptions& options = {});
// The mean of relu(1 - sign * score), for signs 1 and -1.
Tensor hinge(Operand scores, Operand signs, const LossOptions& options = {});
// Cross-entropy for answers of yes and no: targets are 0 or 1, or probabilities between.
// PyTorch divides this weighted mean by the number of elements, not by the sum of the weights; so do we.
Tensor binary_cross_entropy(Operand logits, Operand targets, const LossOptions& options = {});

}  // namespace caravan::nn
