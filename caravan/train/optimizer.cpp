#include "caravan/train/optimizer.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "caravan/autodiff/grad.h"
#include "caravan/base/error.h"
#include "caravan/tensor/call.h"
#include "caravan/tensor/functions.h"
#include "caravan/tensor/graph.h"
#include "caravan/tensor/infer.h"

namespace caravan {

namespace {

Tensor owned(const Tensor& state, const StateOwnerRef& owner) {
  auto node = std::make_shared<Node>(state.node());
  std::get<StateNode>(node->kind).owner = owner;
  return Tensor(std::move(node));
}
// A state of the parameter's shape, `w.SUFFIX`, zeros at first.
Tensor kept(const Tensor& parameter, const std::string& suffix, const StateOwnerRef& owner) {
  return owned(state_like(parameter, parameter.name() + "." + suffix, zeros(), parameter.node().where), owner);
}
// How often the parameter was updated, from 0: as a state of its own, so that optimisers which update different
// parameters at different times do not count each other's steps.
Tensor count_of(const Tensor& parameter, const std::string& suffix, const StateOwnerRef& owner) {
  return owned(state(parameter.name() + "." + suffix + ".step",
                     {.batch = {}, .input = Extents{}, .output = Extents{}, .init = zeros(), .dtype = DType::i64},
                     parameter.node().where),
               owner);
}

// What an optimiser remembers of one parameter.
struct Memory {
  const Tensor& parameter;
  const StateOwnerRef& owner;
  Tensor operator()(const char* what) const { return kept(parameter, owner->name + "." + what, owner); }
  Tensor count() const { return count_of(parameter, owner->name, owner); }
};

// An optimiser whose states are called NAME, or else after its kind.
using UpdateOne = std::function<Program(const Tensor& p, const Tensor& g, const Memory& memory)>;
Optimizer optimizer_of(const char* kind, const std::string& name, Source where, UpdateOne update) {
  auto owner = std::make_shared<const StateOwner>(
      StateOwner{name.empty() ? kind : name, name, "use one Optimizer for both, or give both the same .name", where});
  return Optimizer(
      [owner, update = std::move(update)](const Gradients& gradients) {
        Program out;
        for (const auto& [p, g] : gradients) {
          const Call call = Call::layer(owner->name, {{p.name(), Operand(p, owner->where)}});
          out &= update(p, g, {p, owner});
        }
        return out;
      },
      owner, where);
}

// Numbers of optimisers and schedules are data of the program: another rate needs no compilation. Whether a term is
// there at all (a weight decay or a momentum of 0) is part of the text.
Tensor tunable_rate(const Operand& lr, Source where) {
  const auto* number = std::get_if<NumberNode>(&lr.tensor.node().kind);
  return number && lr.tensor.node().weak ? tunable(number->value, "lr", where) : lr.tensor;
}

// A step times the rate, which is one number.
Tensor at_rate(const Tensor& lr, const Tensor& step) {
  const Tensor out = lr * step;
  return with_check(out, {0, Call::current()->name, ".lr", "", out.node().where});
}

// decay * average + (1 - decay) * value, the running mean of an optimiser.
struct RunningMean {
  Tensor old_weight, new_weight;
  RunningMean(double decay, const std::string& label, Source where)
      : old_weight(tunable(decay, label, where)), new_weight(tunable(1 - decay, label, where)) {}
  Tensor operator()(const Tensor& average, const Tensor& value) const {
    return old_weight * average + new_weight * value;
  }
};

Optimizer adam_with(const AdamOptions& o, bool decoupled, Source where) {
  const Tensor lr = tunable_rate(o.lr, where), weight_decay = tunable(o.weight_decay, "weight_decay", where),
               epsilon = tunable(o.epsilon, "epsilon", where);
  const RunningMean first(o.beta1, "beta1", where), second(o.beta2, "beta2", where);
  // 1 - beta^t as it stands would keep only four digits of 1 - 0.999 in single precision.
  auto correction = [where](double beta, const char* label) -> std::function<Tensor(const Tensor&)> {
    if (beta == 0) return [](const Tensor&) { return number(1, DType::f32); };
    return [log_beta = tunable(std::log(beta), label, where)](const Tensor& t) {
      return -expm1(log_beta * cast(t, DType::f32));
    };
  };
  auto first_correction = correction(o.beta1, "log_beta1"), second_correction = correction(o.beta2, "log_beta2");
  const bool in_gradient = !decoupled && o.weight_decay != 0, apart = decoupled && o.weight_decay != 0;
  return optimizer_of(
      decoupled ? "adamw" : "adam", o.name, where, [=](const Tensor& p, const Tensor& gradient, const Memory& memory) {
        Tensor count = memory.count(), t = count + 1, mean = memory("mean"), square_mean = memory("square");
        Tensor g = in_gradient ? gradient + weight_decay * p : gradient;
        Tensor m = first(mean, g), v = second(square_mean, square(g));
        Tensor step = (m / first_correction(t)) / (sqrt(v / second_correction(t)) + epsilon);
        if (apart) step = step + weight_decay * p;
        return assign(mean, m) & assign(square_mean, v) & assign(p, p - at_rate(lr, step)) & assign(count, t);
      });
}

// A loss by which nothing can be trained.
[[noreturn]] void refuse_loss(const Tensor& loss, Source where) {
  const std::string text = "the loss `" + describe(loss) + "`" + where_text(loss.node().where);
  if (!is_float(loss.dtype()))
    throw GradientError(text + " is " + std::string(name(loss.dtype())) + ", and only floats have gradients" +
                            where_text(where) +
                            "; what counts, such as an accuracy, can be observed but not trained by.",
                        where);
  if (!parameters(loss).empty())
    throw GradientError(text + " depends on parameters only through integers, comparisons or stop_gradient, so that " +
                            "no gradient reaches them" + where_text(where) + ".",
                        where);
  throw GradientError(text + " depends on no parameter, so that there is nothing to train" + where_text(where) + ".",
                      where);
}
// `call` is what the user wrote.
Gradients gradients_for(const char* call, const Tensor& loss, const std::vector<Tensor>& params, Source where) {
  if (params.empty()) refuse_loss(loss, where);
  const Tensor one = with_check(ones_like(loss, where), {-1, call, "the loss", "mean(loss) or sum(loss)", where});
  std::vector<Tensor> values = grad(loss, params, {.cotangent = one}, where);
  Gradients out;
  for (size_t i = 0; i < params.size(); ++i) out.push_back({params[i], values[i]});
  return out;
}
}  // namespace

Gradients gradients(const Tensor& loss, Source where) { return gradients(loss, reached_parameters(loss), where); }
Gradients gradients(const Tensor& loss, const std::vector<Tensor>& params, Source where) {
  return gradients_for("gradients", loss, params, where);
}

Optimizer::Optimizer(Update update, StateOwnerRef owner, Source where)
    : update_(std::move(update)), owner_(std::move(owner)) {
  if (!owner_)
    owner_ = std::make_shared<const StateOwner>(StateOwner{"optimizer", "", "use one Optimizer for both", where});
}
Program Optimizer::operator()(const Gradients& gradients, Source where) const {
  if (!update_)
    throw ConfigError(
        "an undefined Optimizer was used" + where_text(where) + "; make one first (Optimizer o = adam({.lr = 1e-3})).",
        where);
  return update_(gradients);
}

Optimizer sgd(const SgdOptions& o, Source where) {
  if (o.nesterov && o.momentum == 0)
    throw ConfigError("sgd" + where_text(where) + ": .nesterov needs a .momentum.", where);
  const Tensor lr = tunable_rate(o.lr, where), weight_decay = tunable(o.weight_decay, "weight_decay", where),
               momentum = tunable(o.momentum, "momentum", where);
  return optimizer_of("sgd", o.name, where, [=](const Tensor& p, const Tensor& gradient, const Memory& memory) {
    Tensor g = o.weight_decay == 0 ? gradient : gradient + weight_decay * p;
    if (o.momentum == 0) return assign(p, p - at_rate(lr, g));
    Tensor velocity = memory("velocity"), v = momentum * velocity + g;
    return assign(velocity, v) & assign(p, p - at_rate(lr, o.nesterov ? g + momentum * v : v));
  });
}

Optimizer adam(const AdamOptions& o, Source where) { return adam_with(o, false, where); }
Optimizer adamw(const AdamwOptions& o, Source where) {
  return adam_with({o.lr, o.beta1, o.beta2, o.epsilon, o.weight_decay, o.name}, true, where);
}

Optimizer rmsprop(const RmsPropOptions& o, Source where) {
  const Tensor lr = tunable_rate(o.lr, where), weight_decay = tunable(o.weight_decay, "weight_decay", where),
               momentum = tunable(o.momentum, "momentum", where), epsilon = tunable(o.epsilon, "epsilon", where);
  const RunningMean second(o.decay, "decay", where);
  return optimizer_of("rmsprop", o.name, where, [=](const Tensor& p, const Tensor& gradient, const Memory& memory) {
    Tensor g = o.weight_decay == 0 ? gradient : gradient + weight_decay * p;
    Tensor square_mean = memory("square"), v = second(square_mean, square(g));
    Tensor step = g / (sqrt(v) + epsilon);
    if (o.momentum == 0) return assign(square_mean, v) & assign(p, p - at_rate(lr, step));
    Tensor velocity = memory("velocity"), u = momentum * velocity + step;
    return assign(square_mean, v) & assign(velocity, u) & assign(p, p - at_rate(lr, u));
  });
}

Optimizer lion(const LionOptions& o, Source where) {
  const Tensor lr = tunable_rate(o.lr, where), weight_decay = tunable(o.weight_decay, "weight_decay", where);
  const RunningMean stepped(o.beta1, "beta1", where), remembered(o.beta2, "beta2", where);
  return optimizer_of("lion", o.name, where, [=](const Tensor& p, const Tensor& g, const Memory& memory) {
    Tensor mean = memory("mean");
    Tensor step = sign(stepped(mean, g));
    if (o.weight_decay != 0) step = step + weight_decay * p;
    return assign(mean, remembered(mean, g)) & assign(p, p - at_rate(lr, step));
  });
}

Program train_step(const Tensor& loss, const Optimizer& optimizer, const Transform& transform, Source where) {
  Gradients list = gradients_for("train_step", loss, reached_parameters(loss), where);
  return optimizer(transform ? transform(list) : list, where) & observe(loss);
}

Tensor global_norm(const Gradients& list, Source where) {
  const WrittenAt at(where);
  Tensor total;
  for (const auto& [p, g] : list) total = total.defined() ? total + sum(square(g)) : sum(square(g));
  return sqrt(total);
}

Transform clip_by_value(double limit, Source where) {
  return [low = tunable(-limit, "limit", where), high = tunable(limit, "limit", where), where](Gradients list) {
    const WrittenAt at(where);
    for (Gradient& g : list) g.value = clamp(g.value, low, high);
    return list;
  };
}

Transform clip_by_global_norm(double limit, Source where) {
  return [limit = tunable(limit, "limit", where), where](Gradients list) {
    const WrittenAt at(where);
    Tensor scale = min(1.0, limit / (global_norm(list, where) + 1e-6));
    for (Gradient& g : list) g.value = g.value * scale;
    return list;
  };
}

Program accumulated_step(const Tensor& loss, Operand step, int64_t every, const Optimizer& optimizer) {
  if (every < 1)
    throw ConfigError("accumulated_step" + where_text(step.where) + ": `every` is " + std::to_string(every) +
                          "; it must be at least 1.",
                      step.where);
  const Source written = step.where;
  const Tensor last = [&] {
    const WrittenAt at(written);
    return mod(step, every) == every - 1;
  }();
  const StateOwnerRef& owner = optimizer.owner();
  const std::string name = owner && !owner->shared_as.empty() ? owner->name + ".accumulated" : "accumulated";
  Program sums;
  Gradients means;
  for (const auto& [p, g] : gradients_for("accumulated_step", loss, reached_parameters(loss), written)) {
    const WrittenAt at(written);
    Tensor total = kept(p, name, owner), now = total + g;
    sums &= assign(total, where(last, 0.0, now));
    means.push_back({p, now / double(every)});
  }
  return sums & when(Operand(last, written), optimizer(means, written)) & observe(loss);
}

Program averages(const std::vector<Tensor>& params, double decay, const std::string& name, Source where) {
  auto owner = std::make_shared<const StateOwner>(
      StateOwner{name, "averages " + name + " " + std::to_string(decay), "give both the same decay", where});
  const WrittenAt at(where);
  Program out;
  for (const Tensor& p : params) {
    Tensor count = count_of(p, name, owner), average = kept(p, name, owner), t = cast(count, DType::f32);
    Tensor keep = min(decay, t / (t + 1));
    out &= assign(count, count + 1) & assign(average, keep * average + (1 - keep) * p);
  }
  return out;
}

namespace {
void check_length(const char* schedule, const char* what, double steps, Source where) {
  if (!(steps > 0))
    throw ConfigError(fmt::format("{}{}: `{}` is {}, but must be above 0.", schedule, where_text(where), what, steps),
                      where);
}
}  // namespace

Tensor linear_decay(Operand step, double steps, double from, double to) {
  check_length("linear_decay", "steps", steps, step.where);
  const WrittenAt at(step.where);
  return tunable(from, "from", step.where) +
         tunable(to - from, "change", step.where) * min(step / tunable(steps, "steps", step.where), 1.0);
}
Tensor cosine_decay(Operand step, double steps, double from, double to) {
  check_length("cosine_decay", "steps", steps, step.where);
  const WrittenAt at(step.where);
  return tunable(to, "to", step.where) +
         tunable(0.5 * (from - to), "half_change", step.where) *
             (1 + cos(std::numbers::pi * min(step / tunable(steps, "steps", step.where), 1.0)));
}
Tensor exponential_decay(Operand step, double from, double factor, double every) {
  check_length("exponential_decay", "every", every, step.where);
  const WrittenAt at(step.where);
  return tunable(from, "from", step.where) *
         pow(tunable(factor, "factor", step.where), step / tunable(every, "every", step.where));
}
Tensor step_decay(Operand step, double from, double factor, double every) {
  check_length("step_decay", "every", every, step.where);
  const WrittenAt at(step.where);
  return tunable(from, "from", step.where) *
         pow(tunable(factor, "factor", step.where), floor(step / tunable(every, "every", step.where)));
}
Tensor warmup(Operand step, double steps, Operand rate) {
  check_length("warmup", "steps", steps, step.where);
  const WrittenAt at(step.where);
  return tunable_rate(rate, step.where) * min((step + 1) / tunable(steps, "steps", step.where), 1.0);
}

}  // namespace caravan
