// Handles on what a user made: a Dim, a named tensor, and those that were moved from.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <functional>

#include "refusal.h"
#include "this_device.h"

namespace caravan {
namespace {

using Values = std::vector<double>;

TEST(Handles, UsedAfterAMoveSaySo) {
  auto refused = [](const char* what, const std::function<void()>& use) {
    SCOPED_TRACE(what);
    expect_refusal<UserError>(use, {std::string(what) + " was used after it was moved from"});
  };
  Tensor w = param("w", {1, 2});
  Context from(kHere);
  Routine r = from.compile(observe(w) & assign(w, w + 1));
  Context ctx = std::move(from);
  Routine routine = std::move(r);
  routine.run();
  EXPECT_EQ(ctx.read(w).values(), (Values{2, 3}));
  refused("a Context", [&] { from.eval(w); });
  refused("a Context", [&] { from.read("w"); });
  refused("a Context", [&] { from.write("w", Array::vector({1, 2})); });
  refused("a Context", [&] { from.names(); });
  refused("a Routine", [&] { r.run(); });
  refused("a Routine", [&] { r.run_steps(2); });
  refused("a Routine", [&] { r.read(w); });
  refused("a Routine", [&] { r.report(); });
  Array a = Array::vector({1, 2}), b = std::move(a);
  refused("an Array", [&] { a.at(0); });
  refused("an Array", [&] { a.values(); });
  refused("an Array", [&] { a.mutable_data(); });
  refused("an Array", [&] { a.cast(DType::f64); });
  refused("an Array", [&] { ctx.eval(tensor(a) + 1); });
  Index i("i"), j = std::move(i);
  refused("an Index", [&] { i.name(); });
  refused("an Index", [&] { Tensor t = 2 * i; });
  refused("an Index", [&] { routine.run({{i, 1}}), ctx.compile(observe(w * j)).run({{i, 1}}); });
  Dim d, e = std::move(d);
  refused("a Dim", [&] { Tensor t = sqrt(d); });
  refused("a Dim", [&] { einsum("a => a", w, {{"a", d}}); });
  data::Loader loader({Array(parse_shape("4|2"))}, {.batch = 2}), loading = std::move(loader);
  EXPECT_EQ(loading.next().size(), 1u);
  refused("a Loader", [&] { loader.next(); });
  refused("a Loader", [&] { loader.step(); });
  a = b;  // a new value makes it whole
  EXPECT_EQ(a.values(), (Values{1, 2}));
}

TEST(Dim, IsANumberOnEitherSideOfItsSpec) {  // C++ may evaluate the right operand of / first
  Tensor x = matrix({{1, 2, 3}, {4, 5, 6}});
  Context ctx(kHere);
  Dim n, m, never;
  EXPECT_EQ(ctx.eval(einsum("ij=>i", x, {{"j", n}}) / n).values(), (Values{2, 5}));
  EXPECT_EQ(ctx.eval(1.0 / m * einsum("ij=>i", x, {{"j", m}})).values(), (Values{2, 5}));
  EXPECT_EQ(ctx.eval(iota(n)).values(), (Values{0, 1, 2}));
  expect_refusal<ShapeError>([&] { ctx.eval(x * never); }, {"captured by no spec", "handles_test.cpp"});
  expect_refusal<ShapeError>([&] { iota(never); }, {"no spec has captured"});
}

TEST(Tensor, ANamedStateIsStillThatState) {
  Tensor w = param("w", {1, 2}), v = w.named("v");
  Context ctx(kHere);
  EXPECT_EQ(ctx.eval(w + v).values(), (Values{2, 4}));
  EXPECT_EQ(v.name(), "v");
  EXPECT_EQ(ctx.names(), (std::vector<std::string>{"w"}));
  EXPECT_EQ(ctx.eval(grad(sum(v * w), w)).values(), (Values{2, 4}));
}

}  // namespace
}  // namespace caravan
