// Convolutions over images `... | h, w, c` and sequences `... | t, c`. Channels that come in are inferred.
//
//     Conv2d conv("conv1", {.channels = 16, .kernel = 3, .stride = {2, 1}, .padding = same});
#pragma once

#include "caravan/nn/phase.h"
#include "caravan/nn/window.h"
#include "caravan/tensor/call.h"

namespace caravan::nn {

// Convolutions as functions of their weights: `kh, kw, ic -> oc`, with groups `kh, kw, ic -> g, oc`; transposed `kh,
// kw, ic -> oc`.
struct ConvolutionOptions {
  Pair kernel{1}, stride{1}, dilation{1};  // the size of a window, the step between windows, the step within one
  Padding padding{};                       // zeros around the input; none if not given
  int64_t groups = 1;                      // the channels are divided into so many groups that do not see each other
};
Tensor conv2d(Operand x, Operand weight, const ConvolutionOptions& options);  // over images `... | h, w, c`
// Over sequences `... | t, c`; of each pair the first number counts.
Tensor conv1d(Operand x, Operand weight, const ConvolutionOptions& options);
// The transpose of conv2d: every element of x adds a window to the result.
Tensor transposed_conv2d(Operand x, Operand weight, const ConvolutionOptions& options);

// The sizes of a convolution layer.
struct ConvOptions {
  int64_t channels = 0;       // the number of channels of the output
  Pair kernel{3}, stride{1};  // the size of a window, and the step from one to the next
  Padding padding{};          // valid, same, a number or {of height, of width}
  Pair dilation{1};           // the step between the elements of a window
  int64_t groups = 1;         // the channels are divided into so many groups that do not see each other
  bool bias = true;           // whether a bias is added
  Init init{};                // how the weights are initialised
  DType dtype = DType::f32;   // the precision of the parameters
};

// A convolution over images, with NAME.weight and NAME.bias; the bias is one number for each channel.
struct Conv2d {
  std::string name;     // the layer's name, which its parameters' names start with
  ConvOptions options;  // as given, with what was left out filled in
  Tensor weight, bias;  // the parameters NAME.weight and NAME.bias
  Conv2d(std::string name, const ConvOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};
// The same over sequences `... | t, c`; of each pair the first number counts.
struct Conv1d {
  std::string name;     // the layer's name, which its parameters' names start with
  ConvOptions options;  // as given, with what was left out filled in
  Tensor weight, bias;  // the parameters NAME.weight and NAME.bias
  Conv1d(std::string name, const ConvOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};
// A transposed convolution, whose output is larger than its input: (h - 1) * stride + dilation * (kernel - 1) + 1 - 2 *
// padding. Without groups.
struct TransposedConv2d {
  std::string name;     // the layer's name, which its parameters' names start with
  ConvOptions options;  // as given, with what was left out filled in
  Tensor weight, bias;  // the parameters NAME.weight and NAME.bias
  TransposedConv2d(std::string name, const ConvOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};
// A window over each channel by itself (NAME.depthwise.weight, `kh, kw -> c`), then a linear map of the channels
// (NAME.pointwise.weight, `c -> oc`).
struct SeparableConv2d {
  std::string name;                   // the layer's name, which its parameters' names start with
  ConvOptions options;                // as given, with what was left out filled in
  Tensor depthwise, pointwise, bias;  // its parameters; the bias is NAME.pointwise.bias
  SeparableConv2d(std::string name, const ConvOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};
// A convolution over sequences that sees the present and the past alone: y[t] = sum over k of w[k] x[t - dilation *
// (kernel - 1 - k)]. Stride 1.
struct CausalConv1d {
  Conv1d conv;  // with zeros in front of the sequence
  CausalConv1d(const std::string& name, const ConvOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};

// --- pools ---
// The window of a pool.
struct PoolOptions {
  Pair kernel{2}, stride{0};     // the size of a window and the step between windows (0: its size)
  Padding padding{};             // zeros around the input; none if not given
  bool exclude_padding = false;  // an average divides by the elements inside; otherwise by the whole window, as PyTorch
};
// The largest element of each window, channel by channel.
struct MaxPool2d {
  PoolOptions options;  // the window, its stride and padding
  Tensor operator()(Operand x) const;
};
// The mean of each window, channel by channel.
struct AvgPool2d {
  PoolOptions options;  // the window, its stride and padding
  Tensor operator()(Operand x) const;
};
// The mean of each channel over the whole image.
struct GlobalAvgPool2d {
  Tensor operator()(Operand x) const;
};
// The largest element of each channel over the whole image.
struct GlobalMaxPool2d {
  Tensor operator()(Operand x) const;
};

// --- other shapes ---
// An image as one vector, in PyTorch's order: channel by channel.
struct Flatten {
  Tensor operator()(Operand x) const;
};
// Any rearrangement as a layer: Rearrange{"... | t, c => ... | t&c"}.
struct Rearrange {
  std::string spec;     // how the axes move, as for einsum
  Bindings bindings{};  // sizes and conditions for the spec
  Tensor operator()(Operand x) const { return einsum(caravan::spec(spec, x.where), x, bindings); }
};
// WaveNet's fusion: every n neighbours in time become one step with n times the channels.
struct FlattenConsecutive {
  int64_t n = 2;      // how many neighbours are put together
  bool last = false;  // the n steps are all there are, so the time axis is removed
  Tensor operator()(Operand x) const;
};

}  // namespace caravan::nn
