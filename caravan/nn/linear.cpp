#include "caravan/nn/linear.h"

#include <fmt/format.h>

#include "caravan/base/error.h"
#include "caravan/tensor/functions.h"

namespace caravan::nn {

Linear::Linear(std::string name, const LinearOptions& o, Source where) : name(std::move(name)) {
  weight =
      param(this->name + ".weight", {.input = o.input, .output = o.output, .init = o.init, .dtype = o.dtype}, where);
  if (o.bias) bias = param(this->name + ".bias", {.output = o.output, .init = o.bias_init, .dtype = o.dtype}, where);
}
Tensor Linear::operator()(Operand x, const Phase& phase) const {
  const Call call = Call::layer("linear " + name, {{"x", x}});
  Tensor y = phase.in_precision(weight)(Operand(phase.in_precision(x), x.where));
  return phase.in_precision(bias.defined() ? y + bias : y).named("linear " + name);
}

Mlp::Mlp(const std::string& name, const MlpOptions& o, Source where) : activation(o.activation) {
  if (o.widths.empty())
    throw ConfigError("mlp `" + name + "`" + where_text(where) + " needs .widths, the outputs of each of its layers.",
                      where);
  for (const Extent& width : o.widths)
    layers.emplace_back(name + "." + std::to_string(layers.size()),
                        LinearOptions{.output = {width}, .bias = o.bias, .init = o.init, .dtype = o.dtype}, where);
}
Tensor Mlp::operator()(Operand x, const Phase& phase) const {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) x.tensor = activation(x, phase);
    x.tensor = layers[i](x, phase);
  }
  return x.tensor;
}

Swiglu::Swiglu(const std::string& name, const SwigluOptions& o, Source where)
    : gate(name + ".gate", {.output = {o.hidden}, .bias = o.bias, .init = o.init, .dtype = o.dtype}, where),
      up(name + ".up", {.output = {o.hidden}, .bias = o.bias, .init = o.init, .dtype = o.dtype}, where),
      down(name + ".down", {.output = {o.output}, .bias = o.bias, .init = o.init, .dtype = o.dtype}, where) {}
Tensor Swiglu::operator()(Operand x, const Phase& phase) const {
  const Call call = Call::layer("swiglu " + gate.name, {{"x", x}});
  return down(silu(gate(x, phase)) * up(x, phase), phase);
}

Dropout::Dropout(std::string name, double rate, Source where) : name(std::move(name)), rate(rate) {
  if (!(rate >= 0 && rate < 1))
    throw ConfigError(fmt::format("dropout `{}`{} has the rate {}; it must be at least 0 and below 1.", this->name,
                                  where_text(where), rate),
                      where);
}
Tensor Dropout::operator()(Operand x, const Phase& phase) const {
  if (!phase.training() || rate == 0) return x.tensor;
  const Call call = Call::layer("dropout " + name, {{"x", x}});
  Tensor kept = bernoulli(name, 1 - rate, {.like = x.tensor, .step = phase.step(name)}, x.where);
  return where(kept, x / (1 - rate), 0.0).named("dropout " + name);
}

}  // namespace caravan::nn
