// Which sums of products a plan computes, and how.
#include "caravan/plan/products.h"

#include <caravan/caravan.h>
#include <gtest/gtest.h>

namespace caravan::plan {
namespace {

std::string text(const Tensor& y, const Target& target = host(1)) {
  Context ctx({.device = "interp"});
  std::string out;
  for (const Product& p : products(*ctx.plan(observe(y), target))) out += (out.empty() ? "" : "\n") + to_string(p);
  return out.substr(0, out.find(" in tiles of ") + (out.find(" in tiles of ") == out.npos ? 0 : 9));
}
Tensor matrix(const char* name, int64_t height, int64_t width) {
  return param(name, {.output = {height, width}, .init = normal_init()});
}

TEST(Products, AreFoundInIndexMaps) {
  const Tensor a = matrix("a", 64, 48), b = matrix("b", 48, 96),
               v = param("v", {.output = {48}, .init = normal_init()});
  const struct {
    Tensor y;
    const char* text;
  } cases[] = {
      {einsum("m, k; k, n => m, n", a, b), "64 rows, 96 columns, 48 terms: 589824 flops, in tiles"},
      {einsum("m, k; k, n => m, n", 2 * relu(a), b) * 3, "64 rows, 96 columns, 48 terms: 589824 flops, in tiles"},
      {einsum("m, k; k, n => n, m", a, b), "96 rows, 64 columns, 48 terms: 589824 flops, in tiles"},
      {einsum("m, k; k => m", a, v), "1 row, 64 columns, 48 terms: 6144 flops, in loops"},
      {einsum("m, k; n, k => m, n", matrix("p", 3, 2), matrix("q", 5, 2)),
       "3 rows, 5 columns, 2 terms: 60 flops, in loops"},
      {einsum("m, k; m, k => m", a, a), ""},  // no written index that only one factor has
      {sum(a * a), ""},                       // likewise
      {sum(a), ""},
      {a * 2, ""},
  };
  for (const auto& [y, expected] : cases) EXPECT_EQ(text(y), expected);
}

// Whether it is recognised depends on its size; whether it is found does not.
TEST(Products, AreFoundInLoops) {
  Target target = host(1);
  target.tuning.least_tiled = int64_t(1) << 50;
  const Tensor y = einsum("m, k; k, n => m, n", matrix("a", 64, 48), matrix("b", 48, 96));
  EXPECT_EQ(text(y, target), "64 rows, 96 columns, 48 terms: 589824 flops, in loops");
}

}  // namespace
}  // namespace caravan::plan
