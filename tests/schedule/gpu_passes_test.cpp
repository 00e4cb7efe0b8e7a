// All passes for a GPU together: the loops that its threads share compute what one kernel for each accumulation
// computes, also where buffers share memory. A machine in this process runs both, so that no GPU is needed.
#include <gtest/gtest.h>

#include <cmath>

#include "caravan/plan/plan.h"
#include "caravan/schedule/call_products.h"
#include "caravan/schedule/fuse.h"
#include "loop_machine.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

// A GPU that takes the ways of large models for small ones: products are calls of the library, threads share short
// loops, and tensors of any size are stored over others.
Target with_all_ways() {
  Gpu gpu;
  gpu.library_products = true;
  gpu.called_f32 = gpu.called_tf32 = gpu.called_narrow = {500, 0};
  gpu.least_shared = 8, gpu.least_ordered = 1, gpu.stored_scores = int64_t(1) << 30;
  gpu.least_tiled = 1000, gpu.long_sum = 32, gpu.least_part = 4;
  gpu.multiprocessors = 2, gpu.threads_in_flight = 64;
  gpu.one_block_work = 0;
  return gpu_target(gpu);
}

std::map<std::string, std::vector<double>> states_after(const loop::Module& module, const plan::MemoryPlan* memory) {
  const auto all = run_loops(module, std::vector<int64_t>(module.symbols.size(), 1), memory);
  std::map<std::string, std::vector<double>> out;
  for (size_t b = 0; b < all.size(); ++b)
    if (std::holds_alternative<ir::StateLeaf>(module.buffers[b].kind)) out[module.buffers[b].name] = all[b];
  for (const ir::Assignment& a : module.assignments) out[module.buffers[size_t(a.state)].name] = all[size_t(a.value)];
  return out;
}
// `difference`: of an element, as a part of the largest one of its state.
void expect_same_states(const Program& program, double difference) {
  const ir::Program solved = to_ir(program);
  plan::Log log;
  const auto expected = states_after(plan::unoptimized(solved, with_all_ways(), log), nullptr);
  const plan::Plan plan = plan::make_plan(solved, with_all_ways());
  const auto found = states_after(plan.scheduled, &plan.memory);
  ASSERT_FALSE(expected.empty());
  for (const auto& [name, values] : expected) {
    SCOPED_TRACE(name);
    ASSERT_EQ(found.at(name).size(), values.size());
    double largest = 0, most = 0;
    for (size_t e = 0; e < values.size(); ++e) {
      ASSERT_TRUE(std::isfinite(found.at(name)[e])) << "element " << e;
      largest = std::max(largest, std::fabs(values[e]));
      most = std::max(most, std::fabs(values[e] - found.at(name)[e]));
    }
    EXPECT_LE(most, difference * largest);
  }
}

Tensor ids(const std::string& shape, int64_t below) {
  Array out(parse_shape(shape), DType::i32);
  for (int64_t k = 0; k < out.size(); ++k) static_cast<int32_t*>(out.mutable_data())[k] = int32_t(5 * k % below);
  return tensor(out);
}
Program transformer(std::optional<DType> precision) {
  const nn::Gpt model({.vocab = 11, .ctx = 16, .dim = 16, .heads = 2, .layers = 1, .dropout = 0.2});
  const Tensor logits = model(ids("4,16|", 11), nn::training({.step = Index("step"), .precision = precision}));
  return train_step(nn::cross_entropy(logits, ids("4,16|", 9), {.ignore = -100}), adamw({.lr = 0.01}),
                    clip_by_global_norm(1));
}
Program images() {
  std::vector<double> pixels;
  for (int k = 0; k < 8 * 64; ++k) pixels.push_back(std::sin(0.7 * k));
  const nn::Conv2d conv("conv", {.channels = 8, .padding = 1});
  const nn::MaxPool2d pool;
  const nn::Linear dense("dense", {.output = {10}});
  const Tensor x = tensor(Array(parse_shape("8|8,8,1"), pixels, DType::f32));
  const Tensor loss = nn::cross_entropy(dense(pool(relu(conv(x)))), ids("8|", 10));
  return train_step(loss, sgd({.lr = 0.1, .momentum = 0.9}));
}

TEST(GpuPasses, ComputeWhatAccumulationsSay) {
  {
    SCOPED_TRACE("transformer in f32");
    expect_same_states(transformer(std::nullopt), 1e-5);
  }
  {
    SCOPED_TRACE("transformer in bf16");
    expect_same_states(transformer(DType::bf16), 4e-3);
  }
  {
    SCOPED_TRACE("a convolution and a pool");
    expect_same_states(images(), 1e-5);
  }
}

}  // namespace
}  // namespace caravan::schedule
