// What a step would take on devices that are not here, from a plan and a network.
#include "caravan/plan/cluster.h"

#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <cmath>

#include "caravan/target/target.h"

namespace caravan::plan {
namespace {

struct Step {
  std::shared_ptr<const Plan> plan;
  std::vector<double> seconds;  // a millisecond for every kernel
};
Step step_on(int64_t devices) {
  const Tensor x = place(uniform("x", {.batch = {4096}, .output = {4}, .step = 0}), "data");
  const Program program = train_step(mean(square(param("w", {.output = {3}})(x))), sgd({.lr = 0.1}));
  Context ctx({.device = "interp"});
  Step out{ctx.plan(program, host(1), Mesh{{"data", devices}}), {}};
  out.seconds.assign(out.plan->scheduled.kernels.size(), 1e-3);
  return out;
}

TEST(Cluster, AnAllReduceIsARingOrATree) {
  for (const int64_t n : {2, 5, 1024}) {
    const Step step = step_on(n == 5 ? 4 : n);
    const double bytes = 4 * (12 + 1);  // the gradient of w, and the loss
    for (const bool tree : {false, true}) {
      const ClusterStep found = step_on_cluster(*step.plan, step.seconds, {n}, {1e6, 1e-4, tree});
      ASSERT_EQ(found.exchanges.size(), 1u);
      EXPECT_EQ(double(found.exchanges[0].bytes), bytes);
      const double messages = tree ? (n == 2 ? 1 : n == 5 ? 3 : 10) : double(n - 1);
      EXPECT_NEAR(found.exchanging, 2 * (messages * 1e-4 + bytes * double(n - 1) / double(n) / 1e6), 1e-12);
      EXPECT_NEAR(found.seconds, found.computing + found.exchanging, 1e-12) << "the update waits for the gradient";
      EXPECT_NEAR(found.hidden(), 0, 1e-12);
      EXPECT_FALSE(std::signbit(found.hidden())) << "which would be printed as -0%";
    }
  }
}

TEST(Cluster, OneDeviceExchangesNothing) {
  const Step step = step_on(1);
  const ClusterStep found = step_on_cluster(*step.plan, step.seconds, {1}, {});
  EXPECT_TRUE(found.exchanges.empty());
  EXPECT_EQ(found.seconds, found.computing);
}

// What is exchanged while other kernels run costs nothing; what is longer than they are, the rest.
TEST(Cluster, ExchangesAreHiddenBehindKernels) {
  nn::Mlp model("model", {.widths = {400, 400, 3}});
  const Tensor x = place(uniform("x", {.batch = {64}, .output = {400}, .step = 0}), "data");
  Context ctx({.device = "interp"});
  const auto plan = ctx.plan(train_step(mean(square(model(x))), sgd({.lr = 0.1})), host(1), Mesh{{"data", 2}});
  const std::vector<double> seconds(plan->scheduled.kernels.size(), 1e-3);
  const ClusterStep fast = step_on_cluster(*plan, seconds, {2}, {1e12, 1e-9}),
                    slow = step_on_cluster(*plan, seconds, {2}, {1e6, 1e-9});
  ASSERT_GT(fast.exchanges.size(), 1u);
  EXPECT_EQ(fast.computing, slow.computing);
  EXPECT_GT(fast.hidden(), slow.hidden());
  EXPECT_GT(slow.seconds, slow.computing + 0.9 * slow.exchanging - 0.02);
  for (size_t k = 1; k < slow.exchanges.size(); ++k)
    EXPECT_GE(slow.exchanges[k].begins, slow.exchanges[k - 1].begins + slow.exchanges[k - 1].seconds - 1e-12);
}

}  // namespace
}  // namespace caravan::plan
