// Kernels whose rows coincide are one.
#include "caravan/schedule/fuse.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "caravan/loop/walk.h"
#include "caravan/lower/lower.h"
#include "caravan/plan/plan.h"
#include "caravan/schedule/update_in_place.h"
#include "caravan/target/compile_times.h"
#include "pass_table.h"
#include "schedule/split_lowered.h"

namespace caravan::schedule {
namespace {

TEST(Fuse, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {
      {"the epilogue of a product",
       [] { return observe(relu(parameter("w", "3->2")(parameter("x", "4|3")).named("h")).named("y")); },
       {},
       R"(
kernel h
  for b0 < 4:
    for o0 < 2:
      r3:f32 := 0
      for k0 < 3:
        r0:f32 = w[3*o0 + k0]
        r1:f32 = x[3*b0 + k0]
        r2:f32 = mul(r0, r1)
        r3 += r2
      h[2*b0 + o0] = r3
      r4:f32 = h[2*b0 + o0]
      r5:f32 = relu(r4)
      y[2*b0 + o0] = r5
)"},
      {"two of three kernels",
       [] {
         Tensor a = exp(parameter("a", "3")).named("x");
         return observe({a, sin(parameter("b", "5")).named("other"), cos(a).named("y")});
       },
       {},
       R"(
kernel other
  for o0 < 5:
    r0:f32 = b[o0]
    r1:f32 = sin(r0)
    other[o0] = r1
kernel y
  for o0 < 3:
    r0:f32 = a[o0]
    r1:f32 = exp(r0)
    x[o0] = r1
    r2:f32 = x[o0]
    r3:f32 = cos(r2)
    y[o0] = r3
)"},
      {"what only needs whole rows, behind the loop that makes them",
       [] { return observe(exp(einsum("ij=>i", parameter("a", "3,4")).named("s")).named("y")); },
       {},
       R"(
kernel s
  for i < 3:
    r1:f32 := 0
    for j < 4:
      r0:f32 = a[4*i + j]
      r1 += r0
    s[i] = r1
    r2:f32 = s[i]
    r3:f32 = exp(r2)
    y[i] = r3
)"},
      {"the parts of a softmax, which share rows and not elements: one loop over rows",
       [] {
         Tensor x = parameter("x", "3|4"), e = exp(x - einmax("n|c => n|0", x).named("m")).named("e");
         return observe((e / einsum("n|c => n|0", e).named("s")).named("y"));
       },
       {},
       R"(
kernel y
  for n < 3:
    r1:f32 := -inf
    for c < 4:
      r0:f32 = x[4*n + c]
      r1 max= r0
    m[n] = r1
    for o0 < 4:
      r2:f32 = x[4*n + o0]
      r3:f32 = m[n]
      r4:f32 = sub(r2, r3)
      sub[4*n + o0] = r4
      r5:f32 = sub[4*n + o0]
      r6:f32 = exp(r5)
      e[4*n + o0] = r6
    r8:f32 := 0
    for c < 4:
      r7:f32 = e[4*n + c]
      r8 += r7
    s[n] = r8
    for o0 < 4:
      r9:f32 = e[4*n + o0]
      r10:f32 = s[n]
      r11:f32 = div(r9, r10)
      y[4*n + o0] = r11
)"},
      {"two that read the same rows, past one that does not",
       [] {
         Tensor a = parameter("a", "2,3");
         return observe(
             {einsum("ij=>i", a).named("s"), einsum("ij=>j", a).named("columns"), einmax("ij=>i", a).named("m")});
       },
       {},
       R"(
kernel m
  for i < 2:
    r1:f32 := 0
    for j < 3:
      r0:f32 = a[3*i + j]
      r1 += r0
    s[i] = r1
    r3:f32 := -inf
    for j < 3:
      r2:f32 = a[3*i + j]
      r3 max= r2
    m[i] = r3
kernel columns
  for j < 3:
    r1:f32 := 0
    for i < 2:
      r0:f32 = a[j + 3*i]
      r1 += r0
    columns[j] = r1
)"},
  };
  expect_rewritten(fuse, rows);
}

// Softmax, layer norm and cross-entropy, and their gradients: one kernel over rows each, but for what sums over rows.
TEST(Fuse, PartsThatShareRowsAreOneKernel) {
  auto kernels = [](const std::vector<Tensor>& seen) {
    return plan::make_plan(to_ir(observe(seen)), host()).scheduled.kernels.size();
  };
  Tensor x = parameter("x", "32|64"), g = parameter("g", "32|64"), t = parameter("t", "32|64");
  Tensor e = exp(x - einmax("...|i => ...|0", x)), softmax = e / einsum("...|i => ...|0", e);
  EXPECT_EQ(kernels({softmax}), 1u);
  EXPECT_EQ(kernels({softmax, grad(sum(softmax * g), x)}), 1u);
  Tensor centred = x - einsum("...|i => ...|0", x) / 64,
         norm = centred * rsqrt(einsum("...|i => ...|0", square(centred)) / 64 + 1e-5);
  EXPECT_EQ(kernels({norm}), 1u);
  EXPECT_EQ(kernels({norm, grad(sum(norm * g), x)}), 1u);
  Tensor m = einmax("...|i => ...|0", x), all = log(einsum("...|i => ...|0", exp(x - m))) + m;
  Tensor loss = sum(einsum("...|i => ...|0", (all - x) * t));
  EXPECT_EQ(kernels({loss}), 2u);
  EXPECT_EQ(kernels({grad(loss, x)}), 1u);
  EXPECT_EQ(kernels({grad(loss / 32, x)}), 1u) << "the number 1/32 is no kernel of its own";
  Tensor s = parameter("s", "2,8|8->4"), es = exp(s - einmax("...s|t->h => ...s|0->h", s)),
         attention = es / einsum("...s|t->h => ...s|0->h", es);
  EXPECT_EQ(kernels({attention}), 1u);
  EXPECT_EQ(kernels({attention, grad(sum(attention * parameter("gs", "2,8|8->4")), s)}), 1u);
}

TEST(Fuse, MustRefuse) {
  const std::vector<LoopRefusal> hand_rows = {
      {"rows that do not line up: the reader wants the transposition",
       [] { return observe(einsum("ij=>ji", exp(parameter("a", "3,3")))); },
       {}},
      {"rows that do not line up: the reader is shifted",
       [] { return observe(einsum("1*o+1 => o", exp(parameter("a", "4")))); },
       {}},
      {"rows that do not line up: the reader runs backwards",
       [] { return observe(einsum("-i=>i", exp(parameter("a", "4")))); },
       {}},
      {"rows that overlap: a padded window over as many rows",
       [] { return observe(einsum("o<1+k; k => o", exp(parameter("a", "4")), parameter("w", "3"))); },
       {}},
      {"unmatched factors: the reader takes every second",
       [] {
         return observe(einsum("2*n+k => n", exp(parameter("a", "8")), {{"k", 2}}));
       },
       {}},
      {"the same extents over other rows: i&j of 2, 3 against 3, 2",
       [] {
         return observe(einsum("i&j => i, j", einsum("i, j => i&j", parameter("a", "2,3")), {{"i", 3}}));
       },
       {}},
      {"rows of a product, which would be streamed again for each",
       [] {
         Tensor h = parameter("w", "3->5")(parameter("x", "4|3"));
         return observe(einsum("b|o => b|", h));
       },
       {}},
      {"two products that read the same rows",
       [] {
         Tensor x = parameter("x", "4|3");
         return observe({parameter("v", "3->2")(x), parameter("w", "3->2")(x)});
       },
       {}},
      {"an operand that all rows read whole",
       [] {
         Tensor b = parameter("b", "4");
         return observe({einsum("ij;j=>i", parameter("v", "3,4"), b), einsum("ij;j=>i", parameter("w", "3,4"), b)});
       },
       {}},
      {"a sum that must be complete", [] { return observe(parameter("b", "4") * sum(parameter("a", "4"))); }, {}},
      {"offsets through an index tensor",
       [] {
         return observe(
             gather(einsum("v,d=>v->d", exp(parameter("t", "3,2"))), tensor(Array::vector({2, 0, 1}, DType::i32))));
       },
       {}},
  };
  expect_refused(fuse, hand_rows);
}

TEST(Fuse, NamesAKernelAfterWhatComputesMostInIt) {
  Tensor product = einsum("b|i; i->o => b|o", parameter("x", "4|3"), parameter("w", "3->2")).named("product");
  const loop::Module module = fuse(lowered(observe(relu(product).named("r"))));
  ASSERT_EQ(module.kernels.size(), 1u);
  EXPECT_EQ(module.kernels[0].name, "product");
}

TEST(Fuse, KeepsLanes) {
  auto kernels = [](const loop::Module& module) { return fuse(module).kernels.size(); };
  Tensor d = parameter("d", "9"), w = parameter("w", "9,12");
  auto down = [&] { return einsum("o; o,k => k", d, w); };
  EXPECT_EQ(kernels(lowered(observe(relu(down())))), 1u) << "what is computed for each row";
  EXPECT_EQ(kernels(lowered(observe(exp(down())))), 1u) << "a function of rows that run at once";
  EXPECT_EQ(kernels(lowered(observe(einsum("k; j => k,j", down(), parameter("x", "20"))))), 2u)
      << "a loop along memory in a row of a sum across it";
  auto along = [&] { return einsum("o,k; k => o", parameter("v", "9,64"), parameter("x", "64")); };
  EXPECT_EQ(kernels(split_lowered(observe(relu(along())))), 1u) << "arithmetic on the rows of a split sum";
  EXPECT_EQ(kernels(split_lowered(observe(exp(along())))), 2u) << "a function of them";
}

TEST(Fuse, MustNotMoveANewValueBeforeAReaderOfTheOldOne) {  // or it could not be stored in place
  Tensor w = parameter("w", "3"), g = exp(parameter("a", "3")).named("g");
  const Program p = observe({g, einsum("-i=>i", w).named("old")}) & assign(w, (w - g).named("new"));
  const loop::Module after = fuse(lower::lower(in_order(p, {"g", "old", "new"})));
  EXPECT_EQ(after.kernels.size(), 3u);
  EXPECT_TRUE(update_in_place(after).assignments.empty());
}

TEST(Fuse, PastAKernelThatTouchesNeither) {
  Tensor x = exp(parameter("a", "3")).named("x");
  const Program p = observe({x, sin(parameter("b", "5")).named("other"), cos(x).named("y")});
  const loop::Module after = fuse(lower::lower(in_order(p, {"x", "other", "y"})));
  ASSERT_EQ(after.kernels.size(), 2u);
  EXPECT_EQ(after.kernels[0].name, "y");
  EXPECT_EQ(after.kernels[1].name, "other");
}

TEST(Fuse, KernelsStayBounded) {
  std::vector<Tensor> seen;
  Tensor x = parameter("x", "4");
  for (int k = 0; k < 200; ++k) seen.push_back(x = x * 1.5 + k);
  const loop::Module after = fuse(lowered(observe(seen)));
  EXPECT_GT(after.kernels.size(), 2u);
  for (const loop::Kernel& kernel : after.kernels) EXPECT_LE(kernel.comments.size(), kCompileTimes.most_accumulations);
}

// The gradient of a weight needs no more than what the gradient of its input needs, and could be computed with that.
TEST(Fuse, AGradientIsComputedWithItsUpdate) {
  Tensor x = tensor(Array(parse_shape("1|3"), {1, 2, 3}));
  Tensor y = relu(param("v", Array(parse_shape("20->20")))(relu(param("w", Array(parse_shape("3->20")))(x))));
  const loop::Module module = plan::make_plan(to_ir(train_step(sum(square(y)), sgd({.lr = 0.1}))), host(1)).scheduled;
  for (const loop::Kernel& kernel : module.kernels)
    for_each_access(kernel, [&](const loop::Access& a) {
      EXPECT_FALSE(a.write && module.buffers[size_t(a.buffer)].name == "d v") << loops(module);
    });
}
// So are the parameter and both moments of Adam. What Adam computes of each count of steps is one kernel.
TEST(Fuse, AGradientIsComputedWithTheUpdateOfAdam) {
  Tensor x = tensor(Array(parse_shape("1|3"), {1, 2, 3}));
  Tensor y = relu(param("v", Array(parse_shape("20->20")))(relu(param("w", Array(parse_shape("3->20")))(x))));
  const Program step = train_step(sum(square(y)), adam({.lr = 0.1}));
  const plan::Plan plan = plan::make_plan(to_ir(step), host(1));
  const loop::Module& module = plan.scheduled;
  std::set<std::string> stored;
  size_t of_steps = 0;
  for (const loop::Kernel& kernel : module.kernels) {
    bool counts = false;
    for_each_access(kernel, [&](const loop::Access& a) {
      const std::string& name = module.buffers[size_t(a.buffer)].name;
      if (a.write) stored.insert(name);
      counts = counts || name == "v.adam.step";
    });
    of_steps += counts ? 1 : 0;
  }
  for (const char* name : {"v", "w", "v.adam.mean", "w.adam.mean", "v.adam.square", "w.adam.square", "v.adam.step"})
    EXPECT_TRUE(stored.count(name)) << name << " is not stored in place\n" << loops(module);
  for (const char* name : {"d v", "d w"}) EXPECT_FALSE(stored.count(name)) << name << "\n" << loops(module);
  EXPECT_EQ(of_steps, 1u) << loops(module);
}
// On a GPU, the gradient of a large weight is computed beside that of the layer's input, which reads the weight, and
// the weight is updated after both. The first layer has no such reader.
TEST(Fuse, TheGradientsOfALayerRunSideBySideOnAGpu) {
  struct Stages {
    std::map<std::string, int> writes, reads;  // the last stage that does, by buffer
  };
  auto stages = [](int64_t width) {
    auto layer = [&](const char* name) { return param(name, {.input = {width}, .output = {width}}); };
    const Tensor x = tensor(Array({.batch = {64}, .output = {width}}), "x");
    const Program step = train_step(sum(square(layer("w2")(tanh(layer("w1")(x))))), adam({.lr = 0.1}));
    const plan::Plan plan = plan::make_plan(to_ir(step), gpu_target());
    Stages out;
    for (const loop::Kernel& kernel : plan.scheduled.kernels)
      for_each_access(kernel, [&](const loop::Access& a) {
        int& stage = (a.write ? out.writes : out.reads)[plan.scheduled.buffers[size_t(a.buffer)].name];
        stage = std::max(stage, kernel.grid.stage);
      });
    return out;
  };
  const Stages large = stages(128), small = stages(64);
  EXPECT_EQ(large.writes.at("d w2"), large.writes.at("d apply w1"));
  EXPECT_GT(large.writes.at("w2"), large.writes.at("d apply w1"));
  for (const Stages* all : {&large, &small}) EXPECT_FALSE(all->writes.count("d w1"));
  EXPECT_FALSE(small.writes.count("d w2"));
}
TEST(Fuse, AMaxIsComputedWithItsPosition) {  // of windows that overlap, too
  for (const char* spec : {"2*o + k => o", "b, 2*o + k => b, o"}) {
    const Tensor x = parameter("x", spec[0] == 'b' ? "2,9" : "6");
    const int64_t k = spec[0] == 'b' ? 3 : 2;
    const loop::Module after = fuse(
        lowered(observe({einmax(caravan::spec(spec), x, {{"k", k}}), argmax(caravan::spec(spec), x, {{"k", k}})})));
    EXPECT_EQ(after.kernels.size(), 1u) << loops(after);
  }
}

}  // namespace
}  // namespace caravan::schedule
