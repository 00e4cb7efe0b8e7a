// Convolutions, pools and what flattens images.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/layers.h"

namespace caravan {
namespace {

// PyTorch's convolution, one output at a time. Weights lie as [g, oc, kh, kw, ic].
double naive_conv(const Table& x, const Table& w, const ConvOptions& o, int64_t n, int64_t oh, int64_t ow,
                  int64_t channel) {
  const int64_t height = x.sizes[1], width = x.sizes[2], in = x.sizes[3] / o.groups, out = o.channels / o.groups,
                g = channel / out;
  auto before = [&](int64_t kernel, int64_t dilation, int64_t given) {
    return o.padding.is_same ? dilation * (kernel - 1) / 2 : given;
  };
  double sum = 0;
  for (int64_t kh = 0; kh < o.kernel.h; ++kh)
    for (int64_t kw = 0; kw < o.kernel.w; ++kw)
      for (int64_t c = 0; c < in; ++c) {
        const int64_t h = oh * o.stride.h + kh * o.dilation.h - before(o.kernel.h, o.dilation.h, o.padding.size.h);
        const int64_t v = ow * o.stride.w + kw * o.dilation.w - before(o.kernel.w, o.dilation.w, o.padding.size.w);
        if (h < 0 || h >= height || v < 0 || v >= width) continue;
        sum += x(n, h, v, g * in + c) * (o.groups == 1 ? w(channel, kh, kw, c) : w(g, channel % out, kh, kw, c));
      }
  return sum;
}

TEST(Conv2d, EqualsTheLoop) {
  const struct {
    ConvOptions options;
    const char* shape;
  } rows[] = {
      {{.channels = 3}, "2|5,6,3"},
      {{.channels = 3, .kernel = {2, 3}, .stride = {1, 2}}, "2|6,3,3"},
      {{.channels = 2, .kernel = 3, .padding = 1}, "2|7,8,2"},
      {{.channels = 2, .kernel = 3, .padding = {2, 0}}, "2|9,6,2"},
      {{.channels = 2, .kernel = 3, .padding = same}, "2|7,8,2"},
      {{.channels = 2, .kernel = 3, .stride = 2, .padding = same, .dilation = 2}, "2|4,4,2"},
      {{.channels = 2, .kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 2}, .dilation = {2, 3}}, "2|3,9,2"},
      {{.channels = 6, .kernel = 3, .groups = 2}, "2|5,6,6"},
      {{.channels = 8, .kernel = 2, .stride = 2, .padding = 1, .groups = 4},
       "2|4,5,8"},  // depthwise, two for each channel
  };
  for (const auto& row : rows) {
    const ConvOptions& options = row.options;
    ConvOptions o = options;
    o.dtype = kDouble;
    Conv2d conv("conv", o);
    Array x = drawn("x", "2|7,8,4");
    Context ctx(kInDouble);
    Array y = ctx.eval(conv(tensor(x)));
    Table w(ctx.read("conv.weight")), t(x);
    expect_each(y, row.shape, [&](auto& i) { return naive_conv(t, w, o, i[0], i[1], i[2], i[3]); });
    const Shape shape = ctx.read("conv.weight").shape();
    EXPECT_EQ(shape.elements(), o.channels * 4 / o.groups * o.kernel.h * o.kernel.w);
    EXPECT_EQ(to_string(ctx.read("conv.bias").shape()), std::to_string(o.channels));
  }
}

TEST(Conv2d, HasABiasForEachChannelAndRefusesWhatDoesNotDivide) {
  Conv2d conv("conv", {.channels = 2, .kernel = 1, .init = zeros()});
  Context ctx(kInDouble);
  ctx.compile(observe(conv(drawn_tensor("x", "1|2,2,3"))));
  ctx.write("conv.bias", Array::vector({3, 4}));
  expect_near(ctx.eval(conv(drawn_tensor("x", "1|2,2,3"))), {3, 4, 3, 4, 3, 4, 3, 4});
  EXPECT_EQ(to_string(ctx.read("conv.weight").shape()), "1,1,3->2");
  EXPECT_REFUSED(Conv2d("conv", {.channels = 3, .groups = 2}), "3 channels in 2 groups");
  EXPECT_REFUSED(Conv2d("conv", {}), "needs .channels");
  EXPECT_EQ(names(parameters(Conv2d("c", {.channels = 3, .bias = false}))), (Names{"c.weight"}));
}

TEST(Conv1d, EqualsTheLoop) {
  ConvOptions o{.channels = 4, .kernel = 3, .stride = 2, .padding = 2, .dilation = 2, .groups = 2, .dtype = kDouble};
  Conv1d conv("conv", o);
  Array x = drawn("x", "2|9,6");
  Context ctx(kInDouble);
  Array y = ctx.eval(conv(tensor(x)));
  Table w(ctx.read("conv.weight")), t(x);
  expect_each(y, "2|5,4", [&](auto& i) {
    double sum = 0;
    for (int k = 0; k < 3; ++k)
      for (int c = 0; c < 3; ++c)
        if (int64_t at = 2 * i[1] + 2 * k - 2; at >= 0 && at < 9)
          sum += w(i[2] / 2, i[2] % 2, k, c) * t(i[0], at, i[2] / 2 * 3 + c);
    return sum;
  });
}

TEST(CausalConv1d, SeesThePastAlone) {
  CausalConv1d conv("conv", {.channels = 2, .kernel = 3, .dilation = 2, .dtype = kDouble});
  Array x = drawn("x", "2|7,3");
  Context ctx(kInDouble);
  Array y = ctx.eval(conv(tensor(x)));
  Table w(ctx.read("conv.weight")), t(x);
  expect_each(y, "2|7,2", [&](auto& i) {
    double sum = 0;
    for (int k = 0; k < 3; ++k)
      for (int c = 0; c < 3; ++c)
        if (int64_t at = i[1] - 2 * (2 - k); at >= 0) sum += w(i[2], k, c) * t(i[0], at, c);
    return sum;
  });
  EXPECT_REFUSED(CausalConv1d("conv", {.channels = 2, .padding = 1}), "pads the past by itself");
}

TEST(TransposedConv2d, SpreadsEachInput) {
  const struct {
    ConvOptions options;
    const char* shape;
  } rows[] = {{{.channels = 2, .kernel = 3}, "1|5,6,2"},
              {{.channels = 2, .kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 0}}, "1|5,11,2"},
              {{.channels = 3, .kernel = 2, .stride = 2, .dilation = 2}, "1|7,9,3"}};
  for (const auto& row : rows) {
    ConvOptions o = row.options;
    o.dtype = kDouble;
    TransposedConv2d conv("conv", o);
    Array x = drawn("x", "1|3,4,2");
    Context ctx(kInDouble);
    Array y = ctx.eval(conv(tensor(x)));
    Table w(ctx.read("conv.weight")), t(x);
    expect_each(y, row.shape, [&](auto& i) {
      double sum = 0;
      for (int h = 0; h < 3; ++h)
        for (int v = 0; v < 4; ++v)
          for (int kh = 0; kh < o.kernel.h; ++kh)
            for (int kw = 0; kw < o.kernel.w; ++kw)
              for (int c = 0; c < 2; ++c)
                if (h * o.stride.h + kh * o.dilation.h - o.padding.size.h == i[1] &&
                    v * o.stride.w + kw * o.dilation.w - o.padding.size.w == i[2])
                  sum += w(i[3], kh, kw, c) * t(0, h, v, c);
      return sum;
    });
  }
  EXPECT_REFUSED(TransposedConv2d("conv", {.channels = 2, .groups = 2}), "cannot have .groups");
}

TEST(SeparableConv2d, IsAWindowForEachChannelThenAMap) {
  SeparableConv2d conv("conv", {.channels = 4, .kernel = 3, .stride = 2, .padding = 1, .dtype = kDouble});
  Array x = drawn("x", "2|5,5,3");
  Context ctx(kInDouble);
  Array y = ctx.eval(conv(tensor(x)));
  Table d(ctx.read("conv.depthwise.weight")), p(ctx.read("conv.pointwise.weight")), t(x);
  expect_each(y, "2|3,3,4", [&](auto& i) {
    double sum = 0;
    for (int c = 0; c < 3; ++c)
      for (int kh = 0; kh < 3; ++kh)
        for (int kw = 0; kw < 3; ++kw)
          if (int64_t h = 2 * i[1] + kh - 1, v = 2 * i[2] + kw - 1; h >= 0 && h < 5 && v >= 0 && v < 5)
            sum += p(i[3], c) * d(c, kh, kw) * t(i[0], h, v, c);
    return sum;
  });
  EXPECT_EQ(names(parameters(conv)), (Names{"conv.depthwise.weight", "conv.pointwise.weight", "conv.pointwise.bias"}));
}

TEST(Pools, EqualTheLoop) {
  Table t(drawn("x", "2|5,7,2"));
  Tensor x = drawn_tensor("x", "2|5,7,2");
  const struct {
    PoolOptions options;
    const char* shape;
  } rows[] = {{{}, "2|2,3,2"},
              {{.kernel = 3, .stride = 2}, "2|2,3,2"},
              {{.kernel = {3, 2}, .stride = {1, 3}, .padding = {1, 0}}, "2|5,2,2"},
              {{.kernel = 3, .stride = 1, .padding = same}, "2|5,7,2"}};
  for (const auto& row : rows) {
    const PoolOptions o = row.options;
    const Pair stride{o.stride.h ? o.stride.h : o.kernel.h, o.stride.w ? o.stride.w : o.kernel.w};
    const Pair pad = o.padding.is_same ? Pair{(o.kernel.h - 1) / 2, (o.kernel.w - 1) / 2} : o.padding.size;
    auto over = [&](const std::vector<int64_t>& i, const std::function<void(double)>& visit) {
      for (int64_t kh = 0; kh < o.kernel.h; ++kh)
        for (int64_t kw = 0; kw < o.kernel.w; ++kw)
          if (int64_t h = i[1] * stride.h + kh - pad.h, v = i[2] * stride.w + kw - pad.w;
              h >= 0 && h < 5 && v >= 0 && v < 7)
            visit(t(i[0], h, v, i[3]));
    };
    Context ctx(kInDouble);
    expect_each(ctx.eval(MaxPool2d{o}(x)), row.shape, [&](auto& i) {
      double most = -1e9;
      over(i, [&](double v) { most = std::max(most, v); });
      return most;
    });
    double inside = 0;
    auto sum = [&](auto& i) {
      double total = inside = 0;
      over(i, [&](double v) { total += v, ++inside; });
      return total;
    };
    expect_each(ctx.eval(AvgPool2d{o}(x)), row.shape,
                [&](auto& i) { return sum(i) / double(o.kernel.h * o.kernel.w); });
    PoolOptions excluded = o;
    excluded.exclude_padding = true;
    expect_each(ctx.eval(AvgPool2d{excluded}(x)), row.shape, [&](auto& i) {
      const double total = sum(i);
      return total / inside;
    });
  }
  Context ctx(kInDouble);
  expect_each(ctx.eval(GlobalAvgPool2d()(x)), "2|2", [&](auto& i) {
    double sum = 0;
    for (int h = 0; h < 5; ++h)
      for (int v = 0; v < 7; ++v) sum += t(i[0], h, v, i[1]);
    return sum / 35;
  });
  expect_each(ctx.eval(GlobalMaxPool2d()(x)), "2|2", [&](auto& i) {
    double most = -1e9;
    for (int h = 0; h < 5; ++h)
      for (int v = 0; v < 7; ++v) most = std::max(most, t(i[0], h, v, i[1]));
    return most;
  });
}

TEST(Flatten, HasPyTorchsOrder) {
  Table t(drawn("x", "2|2,3,4"));
  Context ctx(kInDouble);
  expect_each(ctx.eval(Flatten()(drawn_tensor("x", "2|2,3,4"))), "2|24",
              [&](auto& i) { return t(i[0], i[1] / 3 % 2, i[1] % 3, i[1] / 6); });
  EXPECT_EQ(to_string(ctx.shape(Rearrange{"..., t | c => ... | t&c"}(drawn_tensor("y", "2,3|4")))), "2|12");
}

TEST(FlattenConsecutive, FusesNeighbours) {
  Table t(drawn("x", "2,6|4"));
  Context ctx(kInDouble);
  expect_each(ctx.eval(FlattenConsecutive{3}(drawn_tensor("x", "2,6|4"))), "2,2|12",
              [&](auto& i) { return t(i[0], 3 * i[1] + i[2] / 4, i[2] % 4); });
  expect_each(ctx.eval(FlattenConsecutive{6, true}(drawn_tensor("x", "2,6|4"))), "2|24",
              [&](auto& i) { return t(i[0], i[1] / 4, i[1] % 4); });
}

}  // namespace
}  // namespace caravan
