#include "caravan/nn/conv.h"

#include "caravan/base/error.h"
#include "caravan/nn/advice.h"

namespace caravan::nn {

namespace {

WindowSizes sizes_of(const ConvolutionOptions& o) { return {o.kernel, o.stride, o.dilation, o.padding}; }
ConvolutionOptions convolution(const ConvOptions& o) { return {o.kernel, o.stride, o.dilation, o.padding, o.groups}; }

Bindings with(Bindings list, BindingArgument more) {
  list.list.push_back(std::move(more));
  return list;
}

Tensor weight_of(const std::string& name, const ConvOptions& o, Source where) {
  if (o.channels < 1)
    throw ConfigError("convolution `" + name + "`" + where_text(where) + " needs .channels, the number that go out.",
                      where);
  if (o.groups < 1 || o.channels % o.groups != 0)
    throw ConfigError("convolution `" + name + "`" + where_text(where) + " has " + std::to_string(o.channels) +
                          " channels in " + std::to_string(o.groups) + " groups; .groups must divide .channels.",
                      where);
  GivenRow output = o.groups == 1 ? GivenRow({o.channels}) : GivenRow({o.groups, o.channels / o.groups});
  return param(name + ".weight", {.output = output, .init = o.init, .dtype = o.dtype}, where);
}
Tensor bias_of(const std::string& name, const ConvOptions& o, Source where) {
  if (!o.bias) return {};
  return param(name + ".bias", {.output = {o.channels}, .init = zeros(), .dtype = o.dtype}, where);
}
Tensor finished(const Tensor& y, const Tensor& bias, const Phase& phase, const char* kind, const std::string& name) {
  return phase.in_precision(bias.defined() ? y + bias : y).named(kind + name);
}

}  // namespace

Tensor conv2d(Operand x, Operand weight, const ConvolutionOptions& o) {
  const Call call = Call::function("nn::conv2d", {{"x", x}, {"the weight", weight}}, is_image);
  const std::string in = windows(o.padding);
  if (o.groups == 1)
    return einsum(spec("... | " + in + ", ic; kh, kw, ic -> oc => ... | oh, ow, oc", x.where), x, weight,
                  window_bindings(sizes_of(o)));
  return einsum(spec("... | " + in + ", g&ic; kh, kw, ic -> g, oc => ... | oh, ow, g&oc", x.where), x, weight,
                with(window_bindings(sizes_of(o)), {"g", o.groups}));
}
Tensor conv1d(Operand x, Operand weight, const ConvolutionOptions& o) {
  const Call call = Call::function("nn::conv1d", {{"x", x}, {"the weight", weight}}, is_channels_in_time);
  const std::string in = window('t', o.padding);
  if (o.groups == 1)
    return einsum(spec("... | " + in + ", ic; kt, ic -> oc => ... | ot, oc", x.where), x, weight,
                  window_bindings('t', sizes_of(o)));
  return einsum(spec("... | " + in + ", g&ic; kt, ic -> g, oc => ... | ot, g&oc", x.where), x, weight,
                with(window_bindings('t', sizes_of(o)), {"g", o.groups}));
}
Tensor transposed_conv2d(Operand x, Operand weight, const ConvolutionOptions& o) {
  const Call call = Call::function("nn::transposed_conv2d", {{"x", x}, {"the weight", weight}}, is_image);
  return einsum(spec("... | oh, ow, ic; kh, kw, ic -> oc => ... | " + windows(o.padding) + ", oc", x.where), x, weight,
                window_bindings(sizes_of(o)));
}

Conv2d::Conv2d(std::string n, const ConvOptions& o, Source where)
    : name(std::move(n)), options(o), weight(weight_of(name, o, where)), bias(bias_of(name, o, where)) {}
Tensor Conv2d::operator()(Operand x, const Phase& phase) const {
  const Call call = Call::layer("conv2d " + name, {{"x", x}}, is_image);
  Operand in(phase.in_precision(x), x.where);
  return finished(conv2d(in, phase.in_precision(weight), convolution(options)), bias, phase, "conv2d ", name);
}

Conv1d::Conv1d(std::string n, const ConvOptions& o, Source where)
    : name(std::move(n)), options(o), weight(weight_of(name, o, where)), bias(bias_of(name, o, where)) {}
Tensor Conv1d::operator()(Operand x, const Phase& phase) const {
  const Call call = Call::layer("conv1d " + name, {{"x", x}}, is_channels_in_time);
  Operand in(phase.in_precision(x), x.where);
  return finished(conv1d(in, phase.in_precision(weight), convolution(options)), bias, phase, "conv1d ", name);
}

TransposedConv2d::TransposedConv2d(std::string n, const ConvOptions& o, Source where)
    : name(std::move(n)), options(o), weight(weight_of(name, o, where)), bias(bias_of(name, o, where)) {
  if (o.groups != 1)
    throw ConfigError("transposed convolution `" + name + "`" + where_text(where) + " cannot have .groups.", where);
}
Tensor TransposedConv2d::operator()(Operand x, const Phase& phase) const {
  const Call call = Call::layer("transposed_conv2d " + name, {{"x", x}}, is_image);
  Operand in(phase.in_precision(x), x.where);
  return finished(transposed_conv2d(in, phase.in_precision(weight), convolution(options)), bias, phase,
                  "transposed_conv2d ", name);
}

SeparableConv2d::SeparableConv2d(std::string n, const ConvOptions& o, Source where)
    : name(std::move(n)),
      options(o),
      depthwise(param(name + ".depthwise.weight", {.init = o.init, .dtype = o.dtype}, where)),
      pointwise(weight_of(name + ".pointwise", o, where)),
      bias(bias_of(name + ".pointwise", o, where)) {}
Tensor SeparableConv2d::operator()(Operand x, const Phase& phase) const {
  const Call call = Call::layer("separable_conv2d " + name, {{"x", x}}, is_image);
  Tensor each =
      einsum(spec("... | " + windows(options.padding) + ", c; kh, kw -> c => ... | oh, ow, c", x.where),
             phase.in_precision(x), phase.in_precision(depthwise), window_bindings(sizes_of(convolution(options))));
  Tensor mixed = einsum("... | h, w, c; c -> oc => ... | h, w, oc", each, phase.in_precision(pointwise));
  return finished(mixed, bias, phase, "separable_conv2d ", name);
}

CausalConv1d::CausalConv1d(const std::string& name, const ConvOptions& o, Source where) : conv(name, o, where) {
  if (o.padding.is_same || o.padding.size.h != 0 || o.stride.h != 1)
    throw ConfigError("causal convolution `" + name + "`" + where_text(where) +
                          " pads the past by itself and has stride 1; leave out .padding and .stride.",
                      where);
}
Tensor CausalConv1d::operator()(Operand x, const Phase& phase) const {
  const Call call = Call::layer("causal_conv1d " + conv.name, {{"x", x}}, is_channels_in_time);
  const int64_t past = conv.options.dilation.h * (conv.options.kernel.h - 1);
  if (past == 0) return conv(x, phase);
  Tensor padded = einsum(spec("... | t, c => ... | " + std::to_string(past) + "^t, c", x.where), x);
  return conv(Operand(padded, x.where), phase);
}

namespace {
WindowSizes pool_sizes(const PoolOptions& o) {
  return {o.kernel, {o.stride.h ? o.stride.h : o.kernel.h, o.stride.w ? o.stride.w : o.kernel.w}, 1, o.padding};
}
std::string window_name(const char* kind, const PoolOptions& o) {
  return kind + std::to_string(o.kernel.h) + "x" + std::to_string(o.kernel.w);
}
RuntimeSpec pool_spec(const PoolOptions& o, const Operand& x) {
  const Pair& pad = o.padding.size;
  if (!o.padding.is_same && (2 * pad.h > o.kernel.h || 2 * pad.w > o.kernel.w))
    throw ConfigError("a pool" + where_text(x.where) + " has .padding " + std::to_string(std::max(pad.h, pad.w)) +
                          ", more than half of its kernel: some windows would be empty.",
                      x.where);
  return spec("... | " + windows(o.padding) + ", c => ... | oh, ow, c", x.where);
}
}  // namespace

Tensor MaxPool2d::operator()(Operand x) const {
  const Call call = Call::layer(window_name("max_pool2d ", options), {{"x", x}}, is_image);
  return einmax(pool_spec(options, x), x, window_bindings(pool_sizes(options)))
      .named(window_name("max_pool2d ", options));
}
Tensor AvgPool2d::operator()(Operand x) const {
  const Call call = Call::layer(window_name("avg_pool2d ", options), {{"x", x}}, is_image);
  const RuntimeSpec spec = pool_spec(options, x);
  const Bindings sizes = window_bindings(pool_sizes(options));
  if (!options.exclude_padding) return mean(spec, x, sizes).named(window_name("avg_pool2d ", options));
  return (einsum(spec, x, sizes) / einsum(spec, ones_like(x.tensor), sizes)).named(window_name("avg_pool2d ", options));
}

Tensor GlobalAvgPool2d::operator()(Operand x) const {
  const Call call = Call::layer("global_avg_pool2d", {{"x", x}}, is_image);
  return mean("... | h, w, c => ... | c", x);
}
Tensor GlobalMaxPool2d::operator()(Operand x) const {
  const Call call = Call::layer("global_max_pool2d", {{"x", x}}, is_image);
  return einmax("... | h, w, c => ... | c", x);
}

Tensor Flatten::operator()(Operand x) const {
  const Call call = Call::layer("flatten", {{"x", x}}, is_image);
  return einsum("... | h, w, c => ... | c&h&w", x);
}
Tensor FlattenConsecutive::operator()(Operand x) const {
  const Call call = Call::layer("flatten_consecutive", {{"x", x}}, is_any_sequence);
  return last ? einsum("..., n | c => ... | n&c", x, {{"n", n}})
              : einsum("..., t&n | c => ..., t | n&c", x, {{"n", n}});
}

}  // namespace caravan::nn
