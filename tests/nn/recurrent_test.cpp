// Recurrent layers.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/layers.h"

namespace caravan {
namespace {

double sigma(double v) { return 1 / (1 + std::exp(-v)); }

TEST(Recurrent, EqualsPyTorchsFormulas) {
  const int64_t hidden = 3, length = 4;
  Array x = drawn("x", "2,4|2");
  Table t(x);
  for (bool is_lstm : {true, false}) {
    const int64_t gates = is_lstm ? 4 : 3;
    Context ctx(kInDouble);
    RecurrentOptions options{.hidden = hidden, .context = length, .dtype = kDouble};
    Lstm lstm("r", options);
    Gru gru("r", options);
    Tensor y = is_lstm ? lstm(tensor(x)) : gru(tensor(x));
    ctx.compile(observe(y));
    const std::string shape = std::to_string(gates) + ",3";
    ctx.write("r.ih.bias", drawn("bi", shape)), ctx.write("r.hh.bias", drawn("bh", shape));
    Table wi(ctx.read("r.ih.weight")), wh(ctx.read("r.hh.weight")), bi(ctx.read("r.ih.bias")),
        bh(ctx.read("r.hh.bias"));
    Values expected;
    for (int b = 0; b < 2; ++b) {
      Values h(hidden, 0), c(hidden, 0);
      for (int s = 0; s < length; ++s) {
        const Values before = h;
        auto from_x = [&](int64_t g, int64_t j) {
          double sum = bi(g, j);
          for (int e = 0; e < 2; ++e) sum += wi(g, j, e) * t(b, s, e);
          return sum;
        };
        auto from_h = [&](int64_t g, int64_t j) {
          double sum = bh(g, j);
          for (int e = 0; e < hidden; ++e) sum += wh(g, j, e) * before[size_t(e)];
          return sum;
        };
        for (int64_t j = 0; j < hidden; ++j) {
          auto gate = [&](int64_t g) { return from_x(g, j) + from_h(g, j); };
          double& cell = c[size_t(j)];
          if (is_lstm) {
            cell = sigma(gate(1)) * cell + sigma(gate(0)) * std::tanh(gate(2));
            h[size_t(j)] = sigma(gate(3)) * std::tanh(cell);
          } else {
            const double r = sigma(gate(0)), z = sigma(gate(1)), n = std::tanh(from_x(2, j) + r * from_h(2, j));
            h[size_t(j)] = (1 - z) * n + z * before[size_t(j)];
          }
        }
        expected.insert(expected.end(), h.begin(), h.end());
      }
    }
    Array values = ctx.eval(y);
    EXPECT_EQ(to_string(values.shape()), "2,4|3");
    expect_near(values, expected);
    EXPECT_EQ(names(is_lstm ? parameters(lstm) : parameters(gru)).size(), 4u);
  }
  EXPECT_REFUSED(Lstm("r", {.hidden = 3}), "needs .hidden and .context");
}

}  // namespace
}  // namespace caravan
