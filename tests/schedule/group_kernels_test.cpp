// Kernels that share batches become one kernel, which keeps what is between them for one batch at a time.
#include "caravan/schedule/group_kernels.h"

#include <gtest/gtest.h>

#include "caravan/loop/walk.h"
#include "caravan/plan/plan.h"
#include "caravan/schedule/forward_stores.h"
#include "caravan/schedule/fuse.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

using namespace loop;

const std::vector<LoopPass> kFused = {fuse, forward_stores};

Tensor chain(const std::string& first, const std::string& second, const std::string& a, const std::string& b,
             const std::string& c) {
  const Tensor h = einsum(spec(first), parameter("a", a), parameter("b", b)).named("h");
  return einsum(spec(second), relu(h).named("r"), parameter("c", c)).named("y");
}

TEST(GroupKernels, BeforeAndAfter) {
  Target target = host(1);
  target.fma = false;
  const std::vector<LoopRewrite> rows = {
      {"the products of a batch, one after the other",
       [] {
         return observe(chain("z,i,k; z,k,j => i,z,j", "i,z,j; z,j,l => z,i,l", "12,32,16", "12,16,32", "12,32,16"));
       },
       kFused,
       R"(
kernel h
  for z < 12:
    for i < 32:
      for j < 32:
        r3:f32 := 0
        for k < 16:
          r0:f32 = a[16*i + 512*z + k]
          r1:f32 = b[512*z + j + 32*k]
          r2:f32 = mul(r0, r1)
          r3 += r2
        r5:f32 = relu(r3)
        r[384*i + 32*z + j] = r5
    for i < 32:
      for l < 16:
        r9:f32 := 0
        for j < 32:
          r6:f32 = r[32*z + 384*i + j]
          r7:f32 = c[512*z + l + 16*j]
          r8:f32 = mul(r6, r7)
          r9 += r8
        y[512*z + 16*i + l] = r9
)"}};
  expect_rewritten([&](const Module& module) { return group_kernels(module, target); }, rows);
}

TEST(GroupKernels, Refuses) {
  const std::string one = "z,i,k; z,k,j => z,i,j";
  const std::vector<LoopRefusal> rows = {
      {"a factor that all batches share",
       [=] { return observe(chain("z,i,k; k,j => z,i,j", one, "4,32,16", "16,32", "4,32,16")); }, kFused},
      {"products that are too small for tiles within a batch",
       [=] { return observe(chain(one, one, "40,8,8", "40,8,8", "40,8,8")); }, kFused},
      {"more between them than fits into the memory of a thread",
       [=] { return observe(chain(one, one, "2,1024,8", "2,8,1024", "2,1024,8")); }, kFused},
      {"a product that reads what other batches computed",
       [=] { return observe(chain(one, "z,i,j; i,j,l => z,i,l", "32,32,16", "32,16,32", "32,32,16")); }, kFused},
      {"nothing that is used between them alone",
       [=] {
         const Tensor h = einsum(spec(one), parameter("a", "4,32,16"), parameter("b", "4,16,32")).named("h");
         return observe({h, einsum(spec(one), h, parameter("c", "4,32,16")).named("y")});
       },
       kFused},
  };
  expect_refused(for_tested(group_kernels), rows);
}

}  // namespace
}  // namespace caravan::schedule
