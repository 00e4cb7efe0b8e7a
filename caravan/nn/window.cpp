#include "caravan/nn/window.h"

namespace caravan::nn {

std::string window(char axis, const Padding& padding) {
  const std::string a(1, axis);
  return "s" + a + "*o" + a + (padding.is_same ? "=" : "<p" + a) + "+d" + a + "*k" + a;
}
std::string windows(const Padding& padding) { return window('h', padding) + ", " + window('w', padding); }

Bindings window_bindings(char axis, const WindowSizes& o) {
  const std::string a(1, axis);
  const bool w = axis == 'w';
  auto of = [&](const Pair& pair) { return w ? pair.w : pair.h; };
  Bindings out{{"s" + a, of(o.stride)}, {"d" + a, of(o.dilation)}, {"k" + a, of(o.kernel)}};
  if (!o.padding.is_same) out.list.push_back({"p" + a, of(o.padding.size)});
  return out;
}
Bindings window_bindings(const WindowSizes& o) {
  Bindings out = window_bindings('h', o);
  for (const BindingArgument& b : window_bindings('w', o).list) out.list.push_back(b);
  return out;
}

}  // namespace caravan::nn
