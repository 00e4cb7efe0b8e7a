// mean(spec, x), which norms and losses are made of.
#include <gtest/gtest.h>

#include "nn/layers.h"

namespace caravan {
namespace {

TEST(Mean, DividesByWhatTheSpecReduces) {
  Context ctx(kInDouble);
  Array x = drawn("x", "2|3,4");
  Table t(x);
  expect_each(ctx.eval(mean("... | h, w => ... | h", tensor(x))), "2|3", [&](auto& i) {
    double sum = 0;
    for (int w = 0; w < 4; ++w) sum += t(i[0], i[1], w);
    return sum / 4;
  });
  expect_each(ctx.eval(mean("... | ..., c => c", tensor(x))), "4", [&](auto& i) {
    double sum = 0;
    for (int b = 0; b < 2; ++b)
      for (int h = 0; h < 3; ++h) sum += t(b, h, i[0]);
    return sum / 6;
  });
  expect_each(ctx.eval(mean("... | ..all.. => ... | 0", tensor(x))), "2|1", [&](auto& i) {
    double sum = 0;
    for (int h = 0; h < 3; ++h)
      for (int w = 0; w < 4; ++w) sum += t(i[0], h, w);
    return sum / 12;
  });
  expect_near(ctx.eval(mean("i => i", tensor({1, 2}))), {1, 2});
  expect_near(ctx.eval(mean("2*o<1+k => o", tensor({3, 6, 9}), {{"k", 3}})), {3, 5});  // windows [. 3 6] [6 9 .]
}
TEST(Mean, TheCountIsTheProductOfWhatIsReduced) {
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(count("... | ..., c => c", drawn_tensor("x", "2,5|3,4"))).item(), 30);
  EXPECT_EQ(ctx.eval(count("i => i", tensor({1, 2}))).item(), 1);
}
TEST(Mean, NeedsNames) { EXPECT_REFUSED(mean("_ => ", tensor({1, 2})), "give `_` a name"); }

}  // namespace
}  // namespace caravan
