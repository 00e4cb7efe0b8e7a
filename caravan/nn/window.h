// What convolutions and pools share: sizes by axis, padding, and the windows of a spec.
#pragma once

#include <string>

#include "caravan/tensor/tensor.h"

namespace caravan::nn {

struct Pair {    // one number for both axes, or {of height, of width}
  int64_t h, w;  // of height, of width
  constexpr Pair(int64_t both) : h(both), w(both) {}
  constexpr Pair(int64_t h, int64_t w) : h(h), w(w) {}
};

struct Padding {         // on both sides of each axis, as PyTorch; `same` keeps the size, or divides it by the stride
  Pair size{0};          // how many zeros on each side
  bool is_same = false;  // as many as keep the size
  constexpr Padding() = default;
  constexpr Padding(int64_t both) : size(both) {}
  constexpr Padding(int64_t h, int64_t w) : size(h, w) {}
};
inline constexpr Padding valid;  // no padding
// As many zeros as keep the size of the input, divided by the stride.
inline constexpr Padding same = [] {
  Padding out;
  out.is_same = true;
  return out;
}();

// "sh*oh<ph+dh*kh, sw*ow<pw+dw*kw": windows over the axes h and w, strides s, padding p, dilations d, kernels k.
std::string windows(const Padding& padding);
std::string window(char axis, const Padding& padding);  // over one axis

// The numbers of a window.
struct WindowSizes {
  Pair kernel{1}, stride{1}, dilation{1};  // the size of a window, the step between windows, the step within one
  Padding padding{};                       // zeros around the input; none if not given
};
Bindings window_bindings(const WindowSizes& sizes);             // of h and w
Bindings window_bindings(char axis, const WindowSizes& sizes);  // of one axis, with the first of each pair

}  // namespace caravan::nn
