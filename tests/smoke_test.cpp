// One screen, the whole pipeline: notation, inference, gradients, a training step, state and its picture.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <sstream>

using namespace caravan;

TEST(Smoke, TheWholePipelineOnOneScreen) {
  auto moons = data::half_moons({.points = 80, .noise = 0.1, .seed = 1});
  Index batch("batch", 8), step("step");
  Tensor x = moons.points.batches(10)[batch], y = moons.labels.batches(10)[batch];
  Tensor w1 = param("w1"), b1 = param("b1", {.output = {16}}), w2 = param("w2");
  Tensor loss = sum(relu(1 - y * w2(relu(w1(x) + b1)))) / 10;

  Context ctx({.seed = 1});
  Routine train = ctx.compile(train_step(loss, adam({.lr = linear_decay(step, 240, 0.05)}), clip_by_global_norm(5)));
  double first = 0, last = 0;
  for (int s = 0; s < 240; ++s) {
    train.run({{batch, s % 8}, {step, s}});
    if (s < 8) first += train.read(loss).item();
    if (s >= 232) last += train.read(loss).item();
  }
  EXPECT_LT(last, first / 4);

  EXPECT_EQ(to_string(ctx.shape(w1)), "2->16");
  Context exact({.seed = 1, .device = "interp"});
  EXPECT_TRUE(check_gradients(loss, {w1, b1, w2}, exact, {.max_per_parameter = 4, .indices = {{batch, 0}}}).passed());
  std::ostringstream seen;
  print_graph(seen, loss, ctx, {{batch, 0}});
  EXPECT_NE(seen.str().find("relu"), std::string::npos);
  EXPECT_THROW(ctx.eval(w1(tensor({1, 2, 3}))), ShapeError);
}
