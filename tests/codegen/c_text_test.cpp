// The generated C, as text: that of a whole training step, where values are computed, and how numbers are written.
#include <gtest/gtest.h>

#include <algorithm>

#include "caravan/codegen/c.h"
#include "caravan/plan/plan.h"
#include "pass_table.h"

namespace caravan {
namespace {

TEST(C, TheMoonsStep) {
  auto moons = data::half_moons({.points = 800, .noise = 0.1, .seed = 1});
  Index batch("batch", 80), step("step");
  Tensor x = moons.points.batches(10)[batch], y = moons.labels.batches(10)[batch];
  Tensor w1 = param("w1"), b1 = param("b1", {.output = {16}, .init = zeros()}), w2 = param("w2"),
         b2 = param("b2", {.output = {16}, .init = zeros()}), w3 = param("w3");
  auto mlp = [&](Tensor in) { return w3(relu(w2(relu(w1(in) + b1)) + b2)); };
  Tensor loss = sum(relu(1 - y * mlp(x))) / 10, lr = 0.1 * (2 - step / 6400.0);
  const loop::Module module =
      plan::make_plan(to_ir(train_step(loss, sgd({.lr = lr, .weight_decay = 1e-4}))), host()).scheduled;
  const std::string text = codegen::to_c(module);
  auto has = [&](const std::string& phrase) { return text.find(phrase) != text.npos; };

  EXPECT_FALSE(std::ranges::any_of(module.kernels, loop::library_call)) << "every update is made in place";
  EXPECT_FALSE(has("memcpy(step->"));
  for (const char* name : {"d_w1", "d_w2", "d_w3", "d_b1", "d_b2"})
    EXPECT_FALSE(has(std::string(name) + "[")) << "a gradient array: " << name;
  for (const char* name : {"w1", "w2", "w3", "b1", "b2"})
    EXPECT_TRUE(has("float* restrict " + std::string(name))) << name << " is written by the kernel of its gradient";
  EXPECT_FALSE(has("restrict d_relu")) << "a gradient array that is only the way to the next";
  EXPECT_TRUE(has("20*batch")) << "the batch is read where it lies";
  EXPECT_FALSE(has("slice_batch")) << "it has no buffer of its own";
  // Each weight is stored once, in the loop that sums its gradient.
  for (const char* name : {"w1", "w2", "w3"}) {
    const std::string update = std::string("    ") + name + "[";
    size_t stores = 0;
    for (size_t at = text.find(update); at != text.npos; at = text.find(update, at + 1)) ++stores;
    EXPECT_EQ(stores, 1u) << name;
  }
}
TEST(C, ALoadIsNotMovedBehindAStore) {
  // y = exp(w) and z = y + new w in one kernel with w := new w: exp(w) is used after the store to w.
  Tensor w = parameter("w", "3"), y = exp(w), next = sin(w) * y;
  const std::string text =
      codegen::to_c(plan::make_plan(to_ir(assign(w, next) & observe((y + next).named("z"))), host()).scheduled);
  const size_t load = text.find("= w[o0];"), store = text.find(" w[o0] = ");
  ASSERT_NE(store, std::string::npos) << text;
  EXPECT_LT(load, store) << text;
  EXPECT_EQ(text.find("w[o0]", store + 9), std::string::npos) << "w is not read again\n" << text;
}
TEST(C, WhatIsUsedInAnInnerLoopIsComputedOutsideIt) {
  Tensor a = parameter("a", "3"), e = exp(a).named("e");
  const std::string text = codegen::to_c(
      plan::make_plan(to_ir(observe(einsum("i;j=>i", e, parameter("b", "4")).named("y"))), host()).scheduled);
  const size_t inner = text.find("for (int64_t j"), function = text.find("caravan_exp_f32(a[");
  ASSERT_NE(function, std::string::npos) << text;
  EXPECT_LT(function, inner) << text;
}
TEST(C, NumbersKeepTheirBits) {
  auto text = [](const Tensor& t) { return codegen::to_c(plan::make_plan(to_ir(observe(t)), host()).scheduled); };
  const Tensor x = parameter("x", "2"), wide = param("wide", Array::vector({1, 2}, DType::f64));
  // 1 + 2^-24 lies halfway between two floats: rounded to even from double, and not from its shortest decimal.
  EXPECT_NE(text(x * (1 + 0x1p-24)).find(" * 1.0f;"), std::string::npos);
  EXPECT_NE(text(x * 0.1).find(" * 0.1f;"), std::string::npos);
  EXPECT_NE(text(wide * 0.1).find(" * 0.1;"), std::string::npos);
  EXPECT_NE(text(einmax("i=>", tensor(Array::vector({1, 2}, DType::i64)))).find("int64_t max = INT64_MIN;"),
            std::string::npos);
  EXPECT_NE(text(einmin("i=>", tensor(Array::vector({1, 2}, DType::i32)))).find("int32_t min = 2147483647;"),
            std::string::npos);
}

}  // namespace
}  // namespace caravan
