// Which kernels of a GPU are launched together.
#include "caravan/schedule/order_stages.h"

#include <gtest/gtest.h>

#include <set>

#include "caravan/loop/walk.h"
#include "caravan/lower/lower.h"
#include "caravan/optimize/join_parts.h"
#include "caravan/schedule/copy_states.h"
#include "caravan/schedule/map_to_grid.h"
#include "for_gpu.h"

namespace caravan::schedule {
namespace {

// "0 y, 1 z": each kernel with its stage.
std::string staged(const loop::Module& module) {
  std::string out;
  for (const loop::Kernel& kernel : module.kernels)
    out += (out.empty() ? "" : ", ") + std::to_string(kernel.grid.stage) + " " + kernel.name;
  return out;
}

// A GPU for which no kernel is so small that it is delayed.
Target eager_gpu() {
  Target out = gpu_target();
  out.gpu.few_blocks = 0;
  return out;
}

TEST(OrderStages, AKernelComesOneStageAfterWhatItDependsOn) {
  const Tensor a = parameter("a", "4"), b = parameter("b", "4");
  const Tensor p = exp(a).named("p"), q = sin(b).named("q");
  const Tensor sum_p = sum(p).named("sum_p"), sum_q = sum(q).named("sum_q");
  struct Row {
    const char* name;
    Program program;
    std::vector<std::string> before;
    const char* after;
  };
  const Row rows[] = {
      {"independent kernels share a stage", observe({p, q}), {"p", "q"}, "0 p, 0 q"},
      {"dependent ones do not", observe(sum_p), {"p", "sum_p"}, "0 p, 1 sum_p"},
      {"independent chains go side by side",
       observe({sum_p, sum_q}),
       {"p", "sum_p", "q", "sum_q"},
       "0 p, 0 q, 1 sum_p, 1 sum_q"},
      {"the longest chain counts",
       observe({(sum_p * q).named("r"), sum_q}),
       {"p", "q", "sum_p", "r", "sum_q"},
       "0 p, 0 q, 1 sum_p, 1 sum_q, 2 r"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const loop::Module before = lower::lower(in_order(row.program, row.before)),
                       after = order_stages(before, eager_gpu());
    loop::verify(after);
    EXPECT_EQ(staged(after), row.after);
    EXPECT_EQ(staged(order_stages(after, eager_gpu())), row.after) << "a second time";
  }
}

TEST(OrderStages, AStateIsWrittenAfterItsReaders) {
  const Tensor w = param("w", Array(parse_shape("4")));
  const Tensor seen = sum(w * w).named("seen");
  const loop::Module after = order_stages(lowered(assign(w, exp(w)) & observe(seen)), eager_gpu());
  loop::verify(after);
  std::map<std::string, int> last_read;
  for (const loop::Kernel& kernel : after.kernels)
    loop::for_each_access(kernel, [&](const loop::Access& access) {
      const std::string& name = after.buffers[size_t(access.buffer)].name;
      if (name != "w") return;
      if (access.write) {
        EXPECT_GT(kernel.grid.stage, last_read["w"]) << loops(after);
      } else {
        last_read[name] = std::max(last_read[name], kernel.grid.stage);
      }
    });
  EXPECT_EQ(last_read.count("w"), 1u) << loops(after);
}

TEST(OrderStages, SmallKernelsAreDelayed) {
  const Tensor a = parameter("a", "4"), b = parameter("b", "4");
  const Tensor p = exp(a).named("p"), q = sin(b).named("q"), sum_p = sum(p).named("sum_p");
  const Program program = observe({(sum_p * q).named("r"), sum(q).named("sum_q")});
  const loop::Module module = lower::lower(in_order(program, {"p", "q", "sum_p", "r", "sum_q"}));
  EXPECT_EQ(staged(order_stages(module, gpu_target())), "0 p, 1 q, 1 sum_p, 2 r, 2 sum_q");
}

// The gradient of a tensor that is used slice by slice is written slice by slice (optimize/join_parts.h).
// Blocks of a launch form clusters that are large enough for all its products, and a kernel of few blocks waits for
// room.
TEST(OrderStages, KernelsOfAStageAreLaunchedTogether) {
  auto product = [](const std::string& name, const std::string& left, const std::string& right) {
    return einsum("i,k; k,o => i,o", parameter("x" + name, left), parameter("w" + name, right)).named(name);
  };
  const Tensor p = product("p", "128,512", "512,512"), q = product("q", "64,1024", "1024,64");
  const Tensor large = product("large", "4096,32", "32,4096"), table = exp(parameter("t", "4096,512")).named("table");
  auto launches = [](const std::vector<Tensor>& results) {
    const loop::Module module = order_stages(map_to_grid(lowered_for_gpu(observe(results)), gpu_target()), eager_gpu());
    std::set<int> out;
    for (const loop::Kernel& kernel : module.kernels) out.insert(kernel.grid.launch);
    return out.size();
  };
  EXPECT_EQ(launches({p, q}), 1u) << "2 and 8 slices";
  EXPECT_EQ(launches({large, exp(parameter("s", "1024"))}), 1u) << "few blocks";
  EXPECT_EQ(launches({large, table}), 2u) << "too many for the shared memory of a product";
}

TEST(OrderStages, MustRefuseToLaunchTogether) {
  const Tensor a = param("a", Array(parse_shape("4"))), b = param("b", Array(parse_shape("4")));
  const Tensor product = einsum("i,k; k,o => i,o", parameter("x", "128,512"), parameter("w", "512,512")).named("p");
  const Tensor other = exp(parameter("s", "4")).named("other");
  Target few_arguments = eager_gpu();
  few_arguments.gpu.most_arguments = 11;  // a kernel with two buffers has 6
  struct Row {
    const char* reason;
    std::function<loop::Module()> module;
    Target target;
    const char* staged;
    size_t launches;
  };
  auto grid = [](const Program& program) { return map_to_grid(lowered_for_gpu(program), gpu_target()); };
  const Row rows[] = {
      {"nothing to refuse",
       [&] {
         return grid(observe({exp(a).named("p"), sin(b).named("q")}));
       },
       eager_gpu(), "0 p, 0 q", 1},
      {"too many arguments",
       [&] {
         return grid(observe({exp(a).named("p"), sin(b).named("q")}));
       },
       few_arguments, "0 p, 0 q", 2},
      {"calls of a library are launched alone", [&] { return copy_states(grid(assign(a, b) & assign(b, a))); },
       eager_gpu(), "0 copy of b 2, 0 copy of a 3, 1 a, 1 b", 3},
      {"a large block of threads has no registers for a product",
       [&] {
         loop::Module module = grid(observe({product, other}));
         for (loop::Kernel& kernel : module.kernels)
           if (kernel.name == "other") kernel.grid.threads = 512;
         return module;
       },
       eager_gpu(), "0 p, 0 other", 2},
  };
  for (const Row& row : rows) {
    const loop::Module after = order_stages(row.module(), row.target);
    std::set<int> launches;
    for (const loop::Kernel& kernel : after.kernels) launches.insert(kernel.grid.launch);
    EXPECT_EQ(staged(after), row.staged) << row.reason;
    EXPECT_EQ(launches.size(), row.launches) << row.reason;
  }
}

TEST(OrderStages, MustRefuseOneStageForWritersThatMayOverlap) {
  const Program shifted = observe(einsum("i^1,j => 1^i,j", parameter("a", "64,4096")).named("y"));  // fills it first
  const loop::Module after = order_stages(map_to_grid(lowered_for_gpu(shifted), gpu_target()), eager_gpu());
  loop::verify(after);
  EXPECT_EQ(staged(after), "0 y, 1 y");
}

TEST(OrderStages, SlicesOfOneTensorAreWrittenInOneStage) {
  const Tensor a = parameter("a", "4,2"), b = parameter("b", "4,2");
  const Tensor joined = (einsum("t, h => t, h^2", exp(a)) + einsum("t, h => t, 2^h", exp(b))).named("joined");
  const loop::Module after = order_stages(lower::lower(optimize::join_parts(prepared(observe(joined)))), eager_gpu());
  loop::verify(after);
  int writers = 0, last = 0;
  for (const loop::Kernel& kernel : after.kernels) ++writers, last = std::max(last, kernel.grid.stage);
  EXPECT_EQ(writers, 4) << staged(after);
  EXPECT_EQ(last, 1) << staged(after);
}

}  // namespace
}  // namespace caravan::schedule
