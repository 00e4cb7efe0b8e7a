// Attention on a GPU: which kernels become one, and what is left alone.
#include "caravan/schedule/gpu_attention.h"

#include <gtest/gtest.h>

#include "caravan/plan/plan.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

struct Case {
  std::string q = "2,32|3,16", k = q;
  nn::AttendOptions options{.causal = true};
  DType dtype = DType::f32;
};
Tensor attended(const Case& c) {
  auto given = [&](const char* name, const std::string& shape) {
    const Tensor x = param(name, Array(parse_shape(shape), DType::f32));
    return c.dtype == DType::f64 ? cast(x, DType::f64) : x;
  };
  const bool narrow = c.dtype == DType::bf16 || c.dtype == DType::f16;
  const nn::Phase phase = nn::training({.precision = narrow ? std::optional(c.dtype) : std::nullopt});
  return nn::attend(given("q", c.q), given("k", c.k), given("v", c.k), c.options, phase).named("y");
}
Program forward(const Case& c) { return observe(attended(c)); }
Program step(const Case& c) { return train_step(mean(square(cast(attended(c), DType::f32))), sgd({.lr = 1})); }

plan::Plan planned(const Program& program, const Gpu& gpu = {.stored_scores = 0}) {
  return plan::make_plan(to_ir(program), gpu_target(gpu));
}
// "forward rows columns"
std::string parts(const plan::Plan& plan) {
  constexpr const char* kNames[] = {"forward", "rows", "columns"};
  std::string out;
  for (const loop::Kernel& kernel : plan.scheduled.kernels)
    if (const loop::Attention* a = loop::attention(kernel))
      out += (out.empty() ? "" : " ") + std::string(kNames[size_t(a->part)]);
  return out;
}
Array numbers(const std::string& shape) { return Array(parse_shape(shape), DType::i32); }

TEST(GpuAttention, IsOneKernelForwardAndTwoBackward) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(std::string(name(dtype)));
    EXPECT_EQ(parts(planned(forward({.dtype = dtype}))), "forward");
    EXPECT_EQ(parts(planned(step({.dtype = dtype}))), "forward rows columns");
    EXPECT_EQ(parts(planned(step({.options = {}, .dtype = dtype}))), "forward rows columns");
    EXPECT_EQ(parts(planned(step({.q = "2,32|3,16", .k = "2,80|3,16", .options = {}, .dtype = dtype}))),
              "forward rows columns");
  }
}

TEST(GpuAttention, WithoutTensorCoresFewScoresAreStored) {
  EXPECT_EQ(parts(planned(step({}), Gpu{})), "");
  EXPECT_EQ(parts(planned(step({}), {.tf32 = true})), "forward rows columns");
  EXPECT_EQ(parts(planned(step({.dtype = DType::bf16}), Gpu{})), "forward rows columns");
}

TEST(GpuAttention, IsPrintedWithItsPlacesInMemory) {
  const plan::Plan plan = planned(forward({}));
  ASSERT_EQ(plan.scheduled.kernels.size(), 1u) << loop::to_string(plan.scheduled);
  const std::string text = loop::to_string(plan.scheduled, plan.scheduled.kernels[0]);
  EXPECT_NE(text.find(R"(  for b < 2, h < 3:
    y[1536*b + 16*h + 48*r + 0] = attention of 6 heads: 32 rows, 32 columns, depth 16, causal, in tiles of 64 x 64, of q[1536*b + 16*h + 48*r + 0], k[1536*b + 16*h + 48*r + 0], v[1536*b + 16*h + 48*r + 0]
)"),
            std::string::npos)
      << text;
}

TEST(GpuAttention, StoresNoScores) {
  auto largest = [](const plan::Plan& plan) {
    int64_t out = 0;
    for (const plan::Placement& p : plan.memory.placements) out = std::max(out, p.bytes);
    return out;
  };
  const Case c{.q = "2,256|3,16", .k = "2,256|3,16"};
  EXPECT_EQ(largest(planned(step(c))), 2 * 256 * 3 * 16 * 4);
}

TEST(GpuAttention, OfATransformerIsFoundInEveryLayer) {
  for (const std::optional<DType> precision : {std::optional<DType>(), std::optional(DType::bf16)}) {
    const nn::Gpt model({.vocab = 28, .ctx = 32, .dim = 32, .heads = 2, .layers = 2, .attention_bias = true});
    const Tensor ids = tensor(numbers("4,32|"));
    const Tensor logits = model(ids, nn::training({.precision = precision}));
    const plan::Plan plan = planned(train_step(nn::cross_entropy(logits, ids), adam({.lr = 0.1})));
    EXPECT_EQ(parts(plan), "forward forward rows columns rows columns");
    // The gradients of queries, keys and values are slices of one tensor.
    std::set<ir::BufferId> written;
    for (const loop::Kernel& kernel : plan.scheduled.kernels)
      if (const loop::Attention* a = loop::attention(kernel); a && a->part != loop::Attention::Part::forward)
        for (const loop::Attention::Rows& rows : a->writes) written.insert(rows.buffer);
    EXPECT_EQ(written.size(), 2u);
  }
}

TEST(GpuAttention, LeavesOtherProgramsAlone) {
  Case masked, wide, odd, unaligned, shared, few;
  masked.options.mask = tensor(Array(parse_shape("32|32->"), DType::boolean));
  wide.dtype = DType::f64;
  odd.q = odd.k = "2,32|3,136";
  unaligned.q = unaligned.k = "2,32|3,18";
  shared.k = "2,32|1,16";
  few.q = few.k = "2,8|3,16";
  struct Row {
    const char* reason;
    Program program;
  };
  auto with_weights = [](double never, bool forwards, bool reads) {
    const Tensor q = param("q", Array(parse_shape("32|16"), DType::f32)),
                 v = param("v", Array(parse_shape("32|16"), DType::f32));
    Dim s, t;
    const Tensor scores = einsum("s | d; t | d => s | t ->", q, q, {{"s", s}, {"t", t}});
    const Tensor mask = forwards ? einsum("=> s | t ->", 1, {{"s", s}, {"t", t}, {"t <= s"}})
                                 : einsum("=> s | t ->", 1, {{"s", s}, {"t", t}, {"s <= t"}});
    const Tensor weights = nn::softmax("s | t -> => s | 0 ->", where(mask, scores, never));
    const Tensor y = einsum("s | t ->; t | d => s | d", weights, v);
    return reads ? observe({y, sum(weights)}) : observe(y);
  };
  EXPECT_EQ(parts(planned(with_weights(-1e30, true, false))), "forward");
  const Row rows[] = {
      {"a mask of the user", forward(masked)},
      {"f64 has no tensor cores", forward(wide)},
      {"more elements in a row than registers hold", forward(odd)},
      {"rows that are not aligned", forward(unaligned)},
      {"heads share keys", forward(shared)},
      {"few rows", forward(few)},
      {"the weights have another reader", with_weights(-1e30, true, true)},
      {"another mask", with_weights(-1e30, false, false)},
      {"positions that are not seen have a weight", with_weights(-5, true, false)},
  };
  for (const Row& row : rows) EXPECT_EQ(parts(planned(row.program)), "") << row.reason;
  EXPECT_EQ(parts(planned(forward({}), {.compute = 75})), "") << "tensor cores of an older GPU";
}

}  // namespace
}  // namespace caravan::schedule
