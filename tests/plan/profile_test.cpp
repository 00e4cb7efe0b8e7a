// What is made of the times of a plan's kernels.
#include "caravan/plan/profile.h"

#include <gtest/gtest.h>

#include "caravan/caravan.h"
#include "caravan/plot/profile.h"
#include "programs.h"

namespace caravan::plan {
namespace {

Plan two_kernels() {
  Tensor x = param("x", Array(parse_shape("64,64"))), w = param("w", Array(parse_shape("64,64")));
  return make_plan(to_ir(observe({einsum("i, k; k, j => i, j", x, w).named("product"), exp(x).named("powers")})),
                   host(1));
}

TEST(Profile, SortsByTimeAndComparesWithTheMachine) {
  const Plan plan = two_kernels();
  ASSERT_EQ(plan.scheduled.kernels.size(), 2u);
  const Peaks peaks{1e12, {{int64_t(1) << 20, 1e10}, {int64_t(1) << 30, 1e9}}};
  const Profile profile = make_profile(plan, {1000, 3000}, peaks);
  ASSERT_EQ(profile.kernels.size(), 2u);
  EXPECT_EQ(profile.kernels[0].number, 1u) << "the slowest first";
  EXPECT_DOUBLE_EQ(profile.kernels[0].microseconds, 3);
  EXPECT_DOUBLE_EQ(profile.kernels[0].share, 0.75);
  EXPECT_DOUBLE_EQ(profile.kernel_microseconds, 4);
  for (const KernelProfile& row : profile.kernels) {
    const double bytes = double(row.cost.read_bytes + row.cost.written_bytes);
    EXPECT_NEAR(row.least_microseconds, 1e6 * std::max(double(row.cost.flops) / 1e12, bytes / 1e10), 1e-9);
    EXPECT_NEAR(row.of_peak(), row.least_microseconds / row.microseconds, 1e-12);
    EXPECT_NEAR(row.gigabytes(), bytes / row.microseconds / 1e3, 1e-9);
    EXPECT_FALSE(row.loops.empty());
    EXPECT_NE(row.origins.at(0).find("profile_test.cpp"), std::string::npos) << "the line that the user wrote";
  }
  const KernelProfile& product = profile.kernels[0].name == "product" ? profile.kernels[0] : profile.kernels[1];
  EXPECT_GE(product.cost.flops, 2 * 64 * 64 * 64);
  EXPECT_LT(product.cost.flops, 2.2 * 64 * 64 * 64) << "and what joins partial sums";
}

TEST(Profile, ReadsAsATableAndAsAPicture) {
  Profile profile = make_profile(two_kernels(), {1000, 3000}, {});
  profile.steps = 7, profile.step_microseconds = 4.5;
  profile.program = "mnist-autoencoder";
  profile.target = "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz, 16 threads, vectors of 512 bits, fma, caches 48 KiB";
  const std::string all = to_string(profile), one = to_string(profile, 1);
  for (const char* word : {"75.0%", "25.0%", "product", "powers", "4.500 us", "mean of 7 steps"})
    EXPECT_NE(all.find(word), std::string::npos) << word << " in\n" << all;
  EXPECT_NE(one.find("other kernels: 1"), std::string::npos) << one;
  EXPECT_EQ(all.find("at best"), std::string::npos) << "nothing was measured";
  profile.peaks = {116e9, {{32 << 10, 211e9}, {1 << 20, 82e9}, {320 << 20, 19e9}, {0, 19e9}}};
  EXPECT_NE(to_string(profile).find("at best 116 GFLOP/s, 211 GB/s within 32 KiB, "), std::string::npos);
  for (const std::string& line : lines_of(to_string(profile))) EXPECT_LE(line.size(), 80u) << line;
  const std::string picture = plot::svg(profile, 1);
  for (const char* word : {"<svg", "others: 1", "75.0%"}) EXPECT_NE(picture.find(word), std::string::npos) << word;
}

TEST(Peaks, TakeTheSmallestMemoryThatHoldsTheBytes) {
  const Peaks peaks{2e9, {{1000, 4e9}, {100000, 1e9}}};
  EXPECT_EQ(peaks.bandwidth(1000), 4e9);
  EXPECT_EQ(peaks.bandwidth(1001), 1e9);
  EXPECT_EQ(peaks.bandwidth(1000000), 1e9);
  EXPECT_EQ(peaks.seconds(2000, 1000), 1e-6) << "arithmetic takes longer";
  EXPECT_EQ(peaks.seconds(0, 2000), 2e-6) << "memory takes longer";
  EXPECT_EQ(Peaks{}.seconds(1000, 1000), 0) << "nothing is known";
}

}  // namespace
}  // namespace caravan::plan
