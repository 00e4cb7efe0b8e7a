// Training basics, written in the language itself: an optimiser turns gradients into a Program of assignments.
// Learning rates are tensors or numbers; moments are states named after their parameter (`w1.adam.mean`).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "caravan/runtime/context.h"

namespace caravan {

struct Gradient {
  Tensor parameter, value;
};
using Gradients = std::vector<Gradient>;

Gradients gradients(const Tensor& loss);  // by all parameters that its gradient reaches
Gradients gradients(const Tensor& loss, const std::vector<Tensor>& parameters, Source where = Source::here());

using Optimizer = std::function<Program(const Gradients&)>;
using Transform = std::function<Gradients(const Gradients&)>;

struct SgdOptions {
  Operand lr = 0.01;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;  // added to the gradient
};
Optimizer sgd(const SgdOptions& options);

struct AdamOptions {
  Operand lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;  // adam: added to the gradient; adamw: decoupled
  std::string name{};       // of its count `NAME.step` and moments `w.NAME.mean`; two in one program need two names
};
Optimizer adam(const AdamOptions& options);
Optimizer adamw(AdamOptions options);

struct RmsPropOptions {
  Operand lr = 0.01;
  double decay = 0.99, epsilon = 1e-8, momentum = 0, weight_decay = 0;
};
Optimizer rmsprop(const RmsPropOptions& options);

struct LionOptions {
  Operand lr = 1e-4;
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;  // decoupled
};
Optimizer lion(const LionOptions& options);

// One step: every parameter of the loss is updated, the loss is observed.
Program train_step(const Tensor& loss, const Optimizer& optimizer, const Transform& transform = nullptr);

// Transforms of gradients.
Tensor global_norm(const Gradients& gradients);
Transform clip_by_value(double limit);        // each element into [-limit, limit]
Transform clip_by_global_norm(double limit);  // all together to a norm of at most `limit`

// Sums gradients over `every` steps and updates with their mean at the last of them. `step` counts from 0.
Program accumulated_step(const Tensor& loss, Operand step, int64_t every, const Optimizer& optimizer);

// Averages of weights as states `w.average`: avg := d avg + (1 - d) w with d = min(decay, t / (t + 1)), so the first
// value is the weight itself and decay 1 is the plain mean. Compose with then(train_step(..), averages(..)).
Program averages(const std::vector<Tensor>& parameters, double decay);

// Learning rates as functions of a step.
Tensor linear_decay(Operand step, double steps, double from, double to = 0);
Tensor cosine_decay(Operand step, double steps, double from, double to = 0);
Tensor exponential_decay(Operand step, double from, double factor, double every = 1);
Tensor step_decay(Operand step, double from, double factor, double every);
Tensor warmup(Operand step, double steps, Operand rate);  // rate * min(1, (step + 1) / steps)

}  // namespace caravan
