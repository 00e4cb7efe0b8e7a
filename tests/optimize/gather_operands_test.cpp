// Products that read an operand through an index tensor become contractions of a copy.
#include "caravan/optimize/gather_operands.h"

#include <gtest/gtest.h>

#include "caravan/jit/jit.h"
#include "caravan/jit/parse.h"
#include "caravan/plan/plan.h"
#include "pass_table.h"

namespace caravan::optimize {
namespace {

constexpr const char* kProduct = "y[m, n] += t[ids[m], k] * w[k, n]   for m < 64, n < 24, k < 32";

// The sizes of the tables in the text.
jit::Buffers tables(const std::string& text) {
  jit::Buffers out;
  for (const char* name : {"t", "u"})
    if (text.find(std::string(name) + "[") != std::string::npos) out.sizes[name] = {50, 32};
  return out;
}

std::string gathered(const std::string& text) {
  const ir::Program out = gather_operands(jit::parse_program(text, tables(text)), tested_target());
  ir::verify(out);
  return body_of(out);
}

TEST(GatherOperands, BeforeAndAfter) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {kProduct, R"(
gathered t 5[m, k] += t[ids[m], k]   for m < 64, k < 32
y.new[m, n] += gathered t 5[m, k] * w[k, n]   for m < 64, n < 24, k < 32
)"},
      {"y[k, n] += g[m, n] * t[ids[m], k]   for k < 32, n < 24, m < 64", R"(
gathered t 5[k, m] += t[ids[m], k]   for k < 32, m < 64
y.new[k, n] += g[m, n] * gathered t 5[k, m]   for k < 32, n < 24, m < 64
)"},
      {"y[b, n] += relu(t[ids[b, s], k]) * w[s, k, n]   for b < 64, n < 24, s < 3, k < 32", R"(
gathered t 5[b, s, k] += t[ids[b, s], k]   for b < 64, s < 3, k < 32
y.new[b, n] += relu(gathered t 5[b, s, k]) * w[s, k, n]   for b < 64, n < 24, s < 3, k < 32
)"},
  };
  for (const auto& [before, after] : rows) {
    std::string text = gathered(before);
    EXPECT_TRUE(text.starts_with(trimmed(after))) << text;
  }
}

TEST(GatherOperands, MustRefuse) {
  const std::vector<std::pair<const char*, std::string>> rows = {
      {"a lookup without a product", "y[m, k] += t[ids[m], k]   for m < 64, k < 32"},
      {"few rows", "y[m, n] += t[ids[m], k] * w[k, n]   for m < 2, n < 24, k < 32"},
      {"two operands with indices", "y[m, n] += t[ids[m], k] * u[other[n], k]   for m < 64, n < 24, k < 32"},
      {"an index that is also a number",
       "y[m, n] += (t[ids[m], k] * f32(ids[m])) * w[k, n]   for m < 64, n < 24, k < 32"},
      {"a write through an index", "t[ids[m], k] += g[m, n] * w[n, k]   for m < 64, n < 24, k < 32"},
      {"a contraction as it is", "y[m, n] += x[m, k] * w[k, n]   for m < 64, n < 24, k < 32"},
  };
  for (const auto& [reason, text] : rows)
    EXPECT_EQ(gathered(text), body_of(jit::parse_program(text, tables(text)))) << reason;
}

TEST(GatherOperands, TheProductIsComputedInTiles) {
  const ir::Program program = jit::parse_program(kProduct, tables(kProduct));
  const plan::Plan plan = plan::make_plan(program, tested_target());
  EXPECT_TRUE(std::any_of(plan.scheduled.kernels.begin(), plan.scheduled.kernels.end(),
                          [](const loop::Kernel& kernel) { return !kernel.contractions.empty(); }));
}

// Against plain loops, with an index that is out of range: such a row has no terms.
TEST(GatherOperands, ComputesTheProduct) {
  std::vector<float> t(50 * 32), w(32 * 24), y(64 * 24, 7);
  std::vector<int32_t> ids(64);
  for (size_t i = 0; i < t.size(); ++i) t[i] = float(i % 13) - 6;
  for (size_t i = 0; i < w.size(); ++i) w[i] = float(i % 7) - 3;
  for (size_t m = 0; m < ids.size(); ++m) ids[m] = m == 5 ? 50 : m == 6 ? -1 : int32_t(m * 37 % 50);
  const TemporaryFolder folder;
  jit::Options options;
  options.cache = folder.path, options.buffers = tables(kProduct);
  jit::compile(kProduct, options).run({{"t", t.data()}, {"ids", ids.data()}, {"w", w.data()}, {"y", y.data()}});
  for (size_t m = 0; m < 64; ++m)
    for (size_t n = 0; n < 24; ++n) {
      float sum = 0;
      for (size_t k = 0; k < 32 && ids[m] >= 0 && ids[m] < 50; ++k) sum += t[size_t(ids[m]) * 32 + k] * w[k * 24 + n];
      ASSERT_EQ(y[m * 24 + n], sum) << m << ", " << n;
    }
}

}  // namespace
}  // namespace caravan::optimize
