#include "caravan/train/optimizer.h"

#include <cmath>
#include <numbers>

#include "caravan/autodiff/grad.h"
#include "caravan/base/error.h"
#include "caravan/tensor/graph.h"

namespace caravan {

namespace {

Tensor moment(const Tensor& parameter, const char* suffix) {
  return state_like(parameter, parameter.node().state()->name + suffix, zeros(), parameter.node().where);
}
// The number of this step, from 1, kept as a state of the optimiser.
Tensor counter(const std::string& name) {
  return state(name, {.batch = {}, .input = Extents{}, .output = Extents{}, .init = zeros(), .dtype = DType::i64});
}

Program for_each(const Gradients& gradients, const std::function<Program(const Tensor& p, const Tensor& g)>& update) {
  Program out;
  for (const auto& [p, g] : gradients) out &= update(p, g);
  return out;
}

Optimizer adam_with(const AdamOptions& o, bool decoupled, const char* name) {
  return [o, decoupled, name = o.name.empty() ? std::string(name) : o.name](const Gradients& gradients) {
    Tensor count = counter(name + ".step"), t = count + 1;
    // 1 - beta^t as it stands would keep only four digits of 1 - 0.999 in single precision.
    auto correction = [&](double beta) {
      return beta == 0 ? number(1, DType::f32) : -expm1(std::log(beta) * cast(t, DType::f32));
    };
    Tensor correct1 = correction(o.beta1), correct2 = correction(o.beta2);
    Program updates = for_each(gradients, [&](const Tensor& p, const Tensor& gradient) {
      Tensor g = decoupled || o.weight_decay == 0 ? gradient : gradient + o.weight_decay * p;
      Tensor mean = moment(p, ("." + name + ".mean").c_str()),
             square_mean = moment(p, ("." + name + ".square").c_str());
      Tensor m = o.beta1 * mean + (1 - o.beta1) * g, v = o.beta2 * square_mean + (1 - o.beta2) * square(g);
      Tensor step = (m / correct1) / (sqrt(v / correct2) + o.epsilon);
      if (decoupled && o.weight_decay != 0) step = step + o.weight_decay * p;
      return assign(mean, m) & assign(square_mean, v) & assign(p, p - o.lr * step);
    });
    return updates & assign(count, t);
  };
}

}  // namespace

Gradients gradients(const Tensor& loss) { return gradients(loss, reached_parameters(loss)); }
Gradients gradients(const Tensor& loss, const std::vector<Tensor>& params, Source where) {
  if (params.empty())
    throw GradientError("the loss `" + loss.node().label + "` (" + to_string(loss.node().where) +
                        ") depends on no parameter.");
  std::vector<Tensor> values = grad(loss, params, {}, where);
  Gradients out;
  for (size_t i = 0; i < params.size(); ++i) out.push_back({params[i], values[i]});
  return out;
}

Optimizer sgd(const SgdOptions& o) {
  if (o.nesterov && o.momentum == 0) throw ConfigError("sgd: .nesterov needs a .momentum.");
  return [o](const Gradients& gradients) {
    return for_each(gradients, [&](const Tensor& p, const Tensor& gradient) {
      Tensor g = o.weight_decay == 0 ? gradient : gradient + o.weight_decay * p;
      if (o.momentum == 0) return assign(p, p - o.lr * g);
      Tensor velocity = moment(p, ".sgd.velocity"), v = o.momentum * velocity + g;
      return assign(velocity, v) & assign(p, p - o.lr * (o.nesterov ? g + o.momentum * v : v));
    });
  };
}

Optimizer adam(const AdamOptions& o) { return adam_with(o, false, "adam"); }
Optimizer adamw(AdamOptions o) { return adam_with(o, true, "adamw"); }

Optimizer rmsprop(const RmsPropOptions& o) {
  return [o](const Gradients& gradients) {
    return for_each(gradients, [&](const Tensor& p, const Tensor& gradient) {
      Tensor g = o.weight_decay == 0 ? gradient : gradient + o.weight_decay * p;
      Tensor square_mean = moment(p, ".rmsprop.square"), v = o.decay * square_mean + (1 - o.decay) * square(g);
      Tensor step = g / (sqrt(v) + o.epsilon);
      if (o.momentum == 0) return assign(square_mean, v) & assign(p, p - o.lr * step);
      Tensor velocity = moment(p, ".rmsprop.velocity"), u = o.momentum * velocity + step;
      return assign(square_mean, v) & assign(velocity, u) & assign(p, p - o.lr * u);
    });
  };
}

Optimizer lion(const LionOptions& o) {
  return [o](const Gradients& gradients) {
    return for_each(gradients, [&](const Tensor& p, const Tensor& g) {
      Tensor mean = moment(p, ".lion.mean");
      Tensor step = sign(o.beta1 * mean + (1 - o.beta1) * g);
      if (o.weight_decay != 0) step = step + o.weight_decay * p;
      return assign(mean, o.beta2 * mean + (1 - o.beta2) * g) & assign(p, p - o.lr * step);
    });
  };
}

Program train_step(const Tensor& loss, const Optimizer& optimizer, const Transform& transform) {
  Gradients list = gradients(loss);
  return optimizer(transform ? transform(list) : list) & observe(loss);
}

Tensor global_norm(const Gradients& list) {
  Tensor total;
  for (const auto& [p, g] : list) total = total.defined() ? total + sum(square(g)) : sum(square(g));
  return sqrt(total);
}

Transform clip_by_value(double limit) {
  return [limit](Gradients list) {
    for (Gradient& g : list) g.value = clamp(g.value, -limit, limit);
    return list;
  };
}

Transform clip_by_global_norm(double limit) {
  return [limit](Gradients list) {
    Tensor scale = min(1.0, limit / (global_norm(list) + 1e-6));
    for (Gradient& g : list) g.value = g.value * scale;
    return list;
  };
}

Program accumulated_step(const Tensor& loss, Operand step, int64_t every, const Optimizer& optimizer) {
  if (every < 1)
    throw ConfigError("accumulated_step: `every` is " + std::to_string(every) + "; it must be at least 1.");
  Tensor last = mod(step, every) == every - 1;
  Program sums;
  Gradients means;
  for (const auto& [p, g] : gradients(loss)) {
    Tensor total = moment(p, ".accumulated"), now = total + g;
    sums &= assign(total, where(last, 0.0, now));
    means.push_back({p, now / double(every)});
  }
  return sums & when(last, optimizer(means)) & observe(loss);
}

Program averages(const std::vector<Tensor>& params, double decay) {
  Tensor count = counter("average.step"), t = cast(count, DType::f32);
  Tensor keep = min(decay, t / (t + 1));
  Program out = assign(count, count + 1);
  for (const Tensor& p : params) {
    Tensor average = moment(p, ".average");
    out &= assign(average, keep * average + (1 - keep) * p);
  }
  return out;
}

Tensor linear_decay(Operand step, double steps, double from, double to) {
  return from + (to - from) * min(step / steps, 1.0);
}
Tensor cosine_decay(Operand step, double steps, double from, double to) {
  return to + 0.5 * (from - to) * (1 + cos(std::numbers::pi * min(step / steps, 1.0)));
}
Tensor exponential_decay(Operand step, double from, double factor, double every) {
  return from * pow(factor, step / every);
}
Tensor step_decay(Operand step, double from, double factor, double every) {
  return from * pow(factor, floor(step / every));
}
Tensor warmup(Operand step, double steps, Operand rate) { return rate * min((step + 1) / steps, 1.0); }

}  // namespace caravan
