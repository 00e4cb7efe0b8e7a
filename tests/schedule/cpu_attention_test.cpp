// Attention on a processor: which kernels become one, and what is left alone. tests/attention_test.cpp runs it.
#include "caravan/schedule/cpu_attention.h"

#include <gtest/gtest.h>

#include "caravan/plan/plan.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

Target any_processor() {
  Target out = host(1);
  out.fma = true, out.vector_bytes = 64, out.tuning = {};
  return out;
}
struct CpuCase {
  std::string q = "2,32|3,16", k = q;
  nn::AttendOptions options{.causal = true};
  DType dtype = DType::f32;
};
Tensor cpu_attended(const CpuCase& c) {
  auto given = [&](const char* name, const std::string& shape) {
    return cast(param(name, Array(parse_shape(shape), DType::f32)), c.dtype);
  };
  return nn::attend(given("q", c.q), given("k", c.k), given("v", c.k), c.options).named("y");
}
Program cpu_step(const CpuCase& c) { return train_step(mean(square(cpu_attended(c))), sgd({.lr = 1})); }

// "forward gradient"
std::string cpu_parts(const Program& program, const Target& target = any_processor()) {
  std::string out;
  for (const loop::Kernel& kernel : plan::make_plan(to_ir(program), target).scheduled.kernels)
    if (const loop::Attention* a = loop::attention(kernel))
      out += std::string(out.empty() ? "" : " ") + (a->part == loop::Attention::Part::forward ? "forward" : "gradient");
  return out;
}

TEST(CpuAttention, IsOneKernelForwardAndOneBackward) {
  EXPECT_EQ(cpu_parts(observe(cpu_attended({}))), "forward");
  EXPECT_EQ(cpu_parts(cpu_step({})), "forward gradient");
  EXPECT_EQ(cpu_parts(cpu_step({.options = {}})), "forward gradient");
  EXPECT_EQ(cpu_parts(cpu_step({.q = "2,30|3,16", .k = "2,80|3,16", .options = {}})), "forward gradient");
  EXPECT_EQ(cpu_parts(cpu_step({.q = "256|1,64", .k = "256|1,64"})), "forward gradient");
}

TEST(CpuAttention, OfATransformerIsFoundInEveryLayer) {
  const nn::Gpt model({.vocab = 28, .ctx = 32, .dim = 32, .heads = 2, .layers = 2});
  const Tensor ids = tensor(Array(parse_shape("4,32|"), DType::i32));
  const Program program = train_step(nn::cross_entropy(model(ids), ids), adam({.lr = 0.1}));
  EXPECT_EQ(cpu_parts(program), "forward forward gradient gradient");
  const plan::Plan plan = plan::make_plan(to_ir(program), any_processor());
  for (const plan::Placement& p : plan.memory.placements)
    EXPECT_NE(p.bytes, 4 * 32 * 2 * 32 * 4) << "of scores: " << plan.scheduled.buffers[size_t(p.buffer)].name;
  const loop::Attention* back = nullptr;
  for (const loop::Kernel& kernel : plan.scheduled.kernels)
    if (loop::attention(kernel)) back = loop::attention(kernel);
  ASSERT_EQ(back->writes.size(), 3u);
  EXPECT_EQ(back->writes[0].buffer, back->writes[2].buffer) << "slices of one tensor";
  EXPECT_TRUE(back->writes[0].adds_zero) << "which is a sum of slices and zeros";
}

TEST(CpuAttention, LeavesOtherProgramsAlone) {
  CpuCase masked, odd;
  masked.options.mask = tensor(Array(parse_shape("32|32->"), DType::boolean));
  odd.q = odd.k = "2,32|3,18";
  const struct {
    const char* reason;
    CpuCase of;
  } rows[] = {
      {"a mask of the user", masked},
      {"another precision", {.dtype = DType::f64}},
      {"a depth that fills no vectors", odd},
      {"heads share keys", {.k = "2,32|1,16"}},
      {"sums without lanes", {.q = "2,24|3,16"}},
  };
  for (const auto& row : rows) EXPECT_EQ(cpu_parts(cpu_step(row.of)), "") << row.reason;
  Target other = any_processor();
  other.fma = false;
  EXPECT_EQ(cpu_parts(cpu_step({}), other), "") << "products are rounded before they are added";
}

TEST(CpuAttention, KeepsTheBlocksOfSums) {
  const struct {
    const char* what;
    CpuCase of;
  } rows[] = {
      {"columns that the lanes do not divide", {.q = "2,36|3,16"}},
      {"sums in blocks", {.q = "1,264|1,16"}},
      {"sums over rows in blocks", {.q = "1,264|1,16", .k = "1,64|1,16", .options = {}}},
      {"blocks and slices", {.q = "1,1024|1,16"}},
  };
  for (const auto& row : rows) EXPECT_EQ(cpu_parts(cpu_step(row.of)), "forward gradient") << row.what;
}
TEST(CpuAttention, HasABufferForWhatIsTooLargeForTheStack) {
  Target small = any_processor();
  small.tuning.stack_elements = 4'000;
  for (const Target& target : {any_processor(), small})
    for (const loop::Kernel& kernel : plan::make_plan(to_ir(cpu_step({})), target).scheduled.kernels) {
      const loop::Attention* a = loop::attention(kernel);
      EXPECT_TRUE(!a || (a->rooms >= 0) == (a->room > target.tuning.stack_elements)) << kernel.name;
    }
  EXPECT_EQ(cpu_parts(cpu_step({}), small), "forward gradient");
}

}  // namespace
}  // namespace caravan::schedule
