#include "caravan/nn/norm.h"

#include "caravan/nn/advice.h"
#include "caravan/tensor/call.h"
#include "caravan/tensor/functions.h"

namespace caravan::nn {

namespace {
Tensor scale_of(const std::string& name, DType dtype, Source where) {
  return param(name + ".weight", {.init = ones(), .dtype = dtype}, where);
}
Tensor shift_of(const std::string& name, DType dtype, Source where) {
  return param(name + ".bias", {.init = zeros(), .dtype = dtype}, where);
}
// normal * weight + bias, both for each channel.
Tensor scaled(const Tensor& normal, const Tensor& weight, const Tensor& bias) {
  return fma("... | ..., c; c; c => ... | ..., c", normal, weight, bias);
}
}  // namespace

Tensor normalized(Spec<1> spec, Operand x, double epsilon) {
  const WrittenAt at(x.where);
  Tensor wide = at_least_f32(x);
  Tensor centred = Operand(wide, x.where) - mean(spec, wide);
  return centred * rsqrt(mean(spec, square(centred)) + epsilon);
}

LayerNorm::LayerNorm(std::string n, const NormOptions& o, Source where)
    : name(std::move(n)),
      epsilon(o.epsilon),
      weight(scale_of(name, o.dtype, where)),
      bias(shift_of(name, o.dtype, where)) {}
Tensor LayerNorm::operator()(Operand x) const {
  const Call call = Call::layer("layer_norm " + name, {{"x", x}}, has_last_axis);
  return scaled(normalized("... | ..., c => ... | ..., 0", x, epsilon), weight, bias).named("layer_norm " + name);
}

RmsNorm::RmsNorm(std::string n, const NormOptions& o, Source where)
    : name(std::move(n)), epsilon(o.epsilon), weight(scale_of(name, o.dtype, where)) {}
Tensor RmsNorm::operator()(Operand x) const {
  const Call call = Call::layer("rms_norm " + name, {{"x", x}}, has_last_axis);
  Operand wide(at_least_f32(x), x.where);
  Tensor normal = wide * rsqrt(mean("... | ..., c => ... | ..., 0", square(wide)) + epsilon);
  return mul("... | ..., c; c => ... | ..., c", normal, weight).named("rms_norm " + name);
}

GroupNorm::GroupNorm(std::string n, int64_t groups, const NormOptions& o, Source where)
    : name(std::move(n)),
      groups(groups),
      epsilon(o.epsilon),
      weight(scale_of(name, o.dtype, where)),
      bias(shift_of(name, o.dtype, where)) {}
Tensor GroupNorm::operator()(Operand x) const {
  const Call call = Call::layer("group_norm " + name, {{"x", x}}, [groups = groups](const Shapes& shapes) {
    const std::string out = has_last_axis(shapes);
    return out.empty() ? are_groups(shapes, groups) : out;
  });
  Tensor split = einsum("... | ..., g&k => ... | ..., g, k", x, {{"g", groups}});
  Tensor normal = normalized("... | ..., g, k => ... | g, 0", split, epsilon);
  return scaled(einsum("... | ..., g, k => ... | ..., g&k", normal), weight, bias).named("group_norm " + name);
}

BatchNorm::BatchNorm(std::string n, const BatchNormOptions& o, Source where)
    : name(std::move(n)),
      momentum(o.momentum),
      epsilon(o.epsilon),
      weight(scale_of(name, o.dtype, where)),
      bias(shift_of(name, o.dtype, where)) {
  auto statistic = [&](const char* suffix, Init init) {
    return state(name + suffix, {.batch = Extents{}, .input = Extents{}, .init = init, .dtype = o.dtype}, where);
  };
  running_mean = statistic(".running_mean", zeros()), running_var = statistic(".running_var", ones());
}
Tensor BatchNorm::operator()(Operand x, const Phase& phase) const {
  std::vector<CallRecord::Promise> promises;
  if (phase.training() && phase.keeps_statistics())
    for (const Tensor* state : {&running_mean, &running_var})
      promises.push_back(
          {weight.name(), state->name(),
           "add the updates of the phase, once the model was called, `train_step(loss, ..) & phase.updates()`; or "
           "say that they are to stay as they are, training({.statistics = false})"});
  const Call call = Call::layer("batch_norm " + name, {{"x", x}}, has_last_axis, std::move(promises));
  x.tensor = at_least_f32(x);
  Tensor mean = running_mean, variance = running_var;
  if (phase.training()) {
    Tensor n = count("... | ..., c => c", x);
    mean = caravan::mean("... | ..., c => c", x), variance = caravan::mean("... | ..., c => c", square(x - mean));
    if (phase.keeps_statistics()) {
      phase.update(running_mean, (1 - momentum) * phase.now(running_mean) + momentum * mean);
      phase.update(running_var, (1 - momentum) * phase.now(running_var) + momentum * variance * n / max(n - 1, 1));
    }
  }
  Tensor centred = sub("... | ..., c; c => ... | ..., c", x, mean);
  return scaled(centred, weight * rsqrt(variance + epsilon), bias).named("batch_norm " + name);
}

}  // namespace caravan::nn
