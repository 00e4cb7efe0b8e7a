// Training basics, written in the language itself: an optimiser turns gradients into a Program of assignments.
// Learning rates are tensors or numbers; what an optimiser remembers are states named after the parameter, as PyTorch
// keeps them: `w1.adam.mean`, `w1.adam.square`, and `w1.adam.step`, the number of its steps.
//
// Every optimiser that is made without a .name is one of its own. Two for disjoint parameters (a GAN, a rate for each
// part of a model) know nothing of each other; two that meet at one parameter are refused, because the second would go
// on with the moments of the first:
//
//     Optimizer optimizer = adam({.lr = 1e-3});
//     Routine large = ctx.compile(train_step(loss_of_64, optimizer));
//     Routine rest = ctx.compile(train_step(loss_of_7, optimizer));
//     ctx.reset("adam");                                                  // forget its moments, for fine-tuning
//     Routine tuned = ctx.compile(train_step(loss, adam({.lr = 1e-5})));  // refused without the line before
//
// Optimisers of one .name share their states on purpose, also where they are made in different places.
//
// Numbers here (rates, decays, limits, steps of a schedule) are data of the compiled program, so that another value
// compiles nothing; but for 0, which leaves a term out. `tunable` makes such numbers for formulas of your own.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "caravan/runtime/context.h"

namespace caravan {

// A parameter and the gradient of the loss by it.
struct Gradient {
  Tensor parameter, value;  // of one shape
};
using Gradients = std::vector<Gradient>;  // one for each parameter

// The gradients of the loss, which is one number, by all parameters that it depends on, or by the given ones.
Gradients gradients(const Tensor& loss, Source where = Source::here());
Gradients gradients(const Tensor& loss, const std::vector<Tensor>& parameters, Source where = Source::here());

struct StateOwner;

// A function from gradients to a program, and who owns the states it keeps. Copies are the same optimiser.
class Optimizer {
 public:
  using Update = std::function<Program(const Gradients&)>;  // what an optimiser does

  Optimizer() = default;  // stands for nothing; using it is refused
  template <class F>      // one of your own: anything that makes a Program of Gradients
  requires(!std::same_as<F, Optimizer> && std::is_invocable_r_v<Program, const F&, const Gradients&>)
      Optimizer(F update, Source where = Source::here())
      : Optimizer(Update(std::move(update)), nullptr, where) {}
  Optimizer(Update update, std::shared_ptr<const StateOwner> owner, Source where);  // without an owner: a new one

  Program operator()(const Gradients& gradients, Source where = Source::here()) const;
  const std::shared_ptr<const StateOwner>& owner() const { return owner_; }  // whose states it keeps

 private:
  Update update_;
  std::shared_ptr<const StateOwner> owner_;
};
using Transform = std::function<Gradients(const Gradients&)>;  // gradients changed before the optimiser sees them

// Options of sgd. In all options, `name` replaces the kind of the optimiser in the names of its states: `w.NAME.mean`.
struct SgdOptions {
  Operand lr = 0.01;        // learning rate: a number or a scalar tensor
  double momentum = 0;      // the share of the last step that is kept; 0: none
  bool nesterov = false;    // Nesterov's form of momentum
  double weight_decay = 0;  // added to the gradient
  std::string name{};       // in the names of its states; empty: the optimiser's kind
};
Optimizer sgd(const SgdOptions& options, Source where = Source::here());  // stochastic gradient descent

// PyTorch's names and defaults.
struct AdamOptions {
  Operand lr = 1e-3;                                  // learning rate: a number or a scalar tensor
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // decays of both moments; added to the root of the second
  double weight_decay = 0;                            // added to the gradient
  std::string name{};                                 // in the names of its states; empty: the optimiser's kind
};
Optimizer adam(const AdamOptions& options, Source where = Source::here());  // Adam (Kingma and Ba 2015)
// PyTorch's names and defaults.
struct AdamwOptions {
  Operand lr = 1e-3;                                  // learning rate: a number or a scalar tensor
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // decays of both moments; added to the root of the second
  double weight_decay = 0.01;                         // this share of a weight, times the rate, is taken off each step
  std::string name{};                                 // in the names of its states; empty: the optimiser's kind
};
// Adam with decoupled decay (Loshchilov and Hutter 2019).
Optimizer adamw(const AdamwOptions& options, Source where = Source::here());

// Options of rmsprop.
struct RmsPropOptions {
  Operand lr = 0.01;  // learning rate: a number or a scalar tensor
  // Of the mean square; added to its root; as for sgd.
  double decay = 0.99, epsilon = 1e-8, momentum = 0, weight_decay = 0;
  std::string name{};  // in the names of its states; empty: the optimiser's kind
};
// Steps divided by the root mean square of the gradient.
Optimizer rmsprop(const RmsPropOptions& options, Source where = Source::here());

// Options of lion.
struct LionOptions {
  Operand lr = 1e-4;                                   // learning rate: a number or a scalar tensor
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;  // decays of the momentum; decoupled weight decay
  std::string name{};                                  // in the names of its states; empty: the optimiser's kind
};
// Steps by the sign of the momentum (Chen et al. 2023).
Optimizer lion(const LionOptions& options, Source where = Source::here());

// One step: every parameter of the loss, which is one number, is updated, and the loss is observed.
Program train_step(const Tensor& loss, const Optimizer& optimizer, const Transform& transform = nullptr,
                   Source where = Source::here());

// The root of the sum of the squares of all gradients.
Tensor global_norm(const Gradients& gradients, Source where = Source::here());
Transform clip_by_value(double limit, Source where = Source::here());  // each element into [-limit, limit]
// All together to a norm of at most `limit`.
Transform clip_by_global_norm(double limit, Source where = Source::here());

// Sums gradients over `every` steps and updates with their mean at the last of them. `step` counts from 0. The sums are
// states of the optimiser: `w.accumulated`, or `w.NAME.accumulated` for one that has a .name.
Program accumulated_step(const Tensor& loss, Operand step, int64_t every, const Optimizer& optimizer);

// Averages of weights as states `w.average`: avg := d avg + (1 - d) w with d = min(decay, t / (t + 1)), so the first
// value is the weight itself and decay 1 is the plain mean. Compose with then(train_step(..), averages(..)).
// `w.average` is called `w.NAME` for another name; two averages of one weight with different decays need two names.
Program averages(const std::vector<Tensor>& parameters, double decay, const std::string& name = "average",
                 Source where = Source::here());

// A learning rate that falls on a straight line from `from` to `to` in `steps` steps.
Tensor linear_decay(Operand step, double steps, double from, double to = 0);
Tensor cosine_decay(Operand step, double steps, double from, double to = 0);           // the same along half a cosine
Tensor exponential_decay(Operand step, double from, double factor, double every = 1);  // from * factor^(step / every)
Tensor step_decay(Operand step, double from, double factor, double every);  // from * factor^floor(step / every)
// The rate, grown from 0 in the first `steps` steps: rate * min(1, (step + 1) / steps).
Tensor warmup(Operand step, double steps, Operand rate);

}  // namespace caravan
