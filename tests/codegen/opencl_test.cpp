// A dialect and a backend, added as HACKING.md says. The dialect prints OpenCL C (opencl.h). The backend runs it as C,
// in which macros and two functions stand for what OpenCL adds to the language: where there is no GPU there is no
// compiler of OpenCL either.
#include "opencl.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "caravan/backend/cc/compile.h"
#include "caravan/backend/cc/memory.h"
#include "caravan/backend/interp/device.h"
#include "caravan/backend/states.h"
#include "caravan/codegen/c.h"
#include "caravan/codegen/kernel_printer.h"
#include "caravan/codegen/prelude.h"
#include "gradient_programs.h"
#include "programs.h"

namespace caravan {
namespace {

using States = backend::States<cc::Memory>;

// A parallel loop is shared by three work-items, here one after the other; any other kernel has one.
constexpr const char* kOpenClInC = R"(#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>
#define __kernel static
#define __global
static int64_t item, items;
static int64_t get_global_id(int axis) { return axis == 0 ? item : 0; }
static int64_t get_global_size(int axis) { return axis == 0 ? items : 1; }
)";

std::string text_of(const loop::Module& module) {
  const codegen::OpenCl dialect;
  std::set<std::string, std::less<>> helpers;
  std::string functions, calls;
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    const loop::Kernel& kernel = module.kernels[k];
    auto buffer = [](ir::BufferId id) { return "buffers[" + std::to_string(id) + "]"; };
    if (const loop::LibraryCall* call = loop::library_call(kernel)) {
      calls += "  memcpy(" + buffer(call->writes[0]) + ", " + buffer(call->reads[0]) + ", " +
               std::to_string(std::get<loop::LibraryCall::Copy>(call->function).bytes) + ");\n";
      continue;
    }
    const std::string name = "kernel" + std::to_string(k);
    codegen::KernelPrinter printer(module, kernel, dialect, codegen::KernelPrinter::Names::own);
    functions += printer.head(name) + printer.body();
    helpers.insert(printer.helpers().begin(), printer.helpers().end());
    std::string arguments;
    auto pass = [&](const std::string& argument) { arguments += (arguments.empty() ? "" : ", ") + argument; };
    for (const ir::BufferId id : printer.uses().buffers) pass(buffer(id));
    for (const int s : printer.uses().symbols) pass("symbols[" + std::to_string(s) + "]");
    const std::string count = loop::parallel_loop(kernel) ? "3" : "1";
    calls += "  items = " + count + ";\n  for (item = 0; item < items; ++item) " + name + "(" + arguments + ");\n";
  }
  std::string used;
  for (const codegen::Helper& helper : codegen::kHelpers)
    if (helpers.count(helper.name.substr(std::string_view("caravan_").size()))) used += helper.text;
  return kOpenClInC + used + functions + "void run(void* const* buffers, const int64_t* symbols) {\n" + calls + "}\n";
}

class OpenClExecutable : public backend::Executable {
 public:
  OpenClExecutable(std::shared_ptr<const plan::Plan> plan, States& states, const cc::CompilerOptions& compiler)
      : plan_(std::move(plan)),
        compiled_(cc::compile({text_of(plan_->scheduled)}, compiler)),
        arena_(cc::allocate(plan_->memory.bytes)),
        buffers_(plan_->scheduled.buffers.size()),
        states_(states, plan_->program, backend::state_uses(*plan_), cc::allocate) {
    for (const plan::Placement& place : plan_->memory.placements)
      buffers_[size_t(place.buffer)] = arena_.get() + place.offset;
    for (size_t b = 0; b < buffers_.size(); ++b)
      if (auto* data = std::get_if<ir::DataLeaf>(&plan_->scheduled.buffers[b].kind))
        buffers_[b] = const_cast<void*>(data->array.data());
  }
  void run(const std::vector<int64_t>& symbols) override {
    states_.make_ready(symbols, [&](ir::BufferId id, const cc::Memory& m) { buffers_[size_t(id)] = m.get(); });
    reinterpret_cast<void (*)(void* const*, const int64_t*)>(compiled_.library->symbol("run"))(buffers_.data(),
                                                                                               symbols.data());
    states_.note_assigned();
  }
  Array observed(size_t which) const override {
    const ir::BufferId id = plan_->scheduled.observed[which];
    const ir::Buffer& buffer = plan_->scheduled.buffers[size_t(id)];
    Array out(buffer.shape, buffer.dtype);
    std::memcpy(out.mutable_data(), buffers_[size_t(id)], size_t(out.size() * bytes(buffer.dtype)));
    return out;
  }

 private:
  std::shared_ptr<const plan::Plan> plan_;
  cc::Compiled compiled_;
  cc::Memory arena_;
  std::vector<void*> buffers_;
  backend::UsedStates<cc::Memory> states_;
};

class OpenClDevice : public backend::Device {
 public:
  std::string name() const override { return "opencl"; }
  std::optional<Target> target() const override {
    Target out;
    out.threads = 3;
    out.vector_bytes = out.tuning.vector_bytes = 4;  // no vectors
    out.tuning.parallel_work = 100, out.tuning.chunk_work = 10;
    return out;
  }
  std::unique_ptr<backend::Executable> prepare(std::shared_ptr<const plan::Plan> plan) override {
    cc::CompilerOptions compiler;
    compiler.flags = {"-std=gnu99",        "-Wall",   "-Werror", "-Wno-unused-variable",
                      "-ffp-contract=off", "-fwrapv", "-fPIC"};
    compiler.cache = cache_.path;
    return std::make_unique<OpenClExecutable>(std::move(plan), states_, compiler);
  }
  bool has(const std::string& state) const override { return states_.has(state); }
  std::vector<std::string> names() const override { return states_.names(); }
  Array read(const std::string& state) const override {
    const States::State& s = states_.at(state);
    Array out(s.type.shape, s.type.dtype);
    std::memcpy(out.mutable_data(), s.memory.get(), size_t(out.size() * bytes(s.type.dtype)));
    return out;
  }
  void write(const std::string& state, const Array& value, DType dtype) override {
    States::State& s = states_.declare(state, value.shape(), dtype, cc::allocate);
    std::memcpy(s.memory.get(), value.cast(dtype).data(), size_t(value.size() * bytes(dtype)));
    s.filled = true;
  }

 private:
  const TemporaryFolder cache_;
  States states_;
};

// Every fourth gradient case; what draws random numbers is left out, because the toy passes no seed.
TEST(OpenCl, ComputesWhatTheInterpreterComputes) {
  std::vector<Task> tasks;
  std::vector<std::string> names;
  const std::vector<GradientProgram> all = gradient_programs();
  for (size_t k = 0; k < all.size(); k += 4) {
    Task task = task_of(all[k].program, all[k].indices);
    const bool draws = std::any_of(task.program.buffers.begin(), task.program.buffers.end(),
                                   [](const ir::Buffer& b) { return std::holds_alternative<ir::RandomLeaf>(b.kind); });
    if (draws) continue;
    for (size_t o = 0; o < task.program.observed.size(); ++o) names.push_back(all[k].name);
    tasks.push_back(std::move(task));
  }
  const Task task = joined(tasks);
  OpenClDevice device;
  const std::vector<Array> actual = run_on(device, task).observed,
                           expected = run_on(*interp::make_device(3), task).observed;
  ASSERT_GT(expected.size(), 30u);
  for (size_t o = 0; o < expected.size(); ++o) {
    double largest = 0;
    for (const double v : expected[o].values()) largest = std::max(largest, std::abs(v));
    for (int64_t i = 0; i < expected[o].size(); ++i)
      EXPECT_NEAR(actual[o].at(i), expected[o].at(i), 1e-12 * largest) << names[o] << ", element " << i;
  }
}

TEST(OpenCl, TrainsAModel) {
  auto train = [](Context& ctx) {
    const Tensor x = tensor(Array({.batch = {32}, .output = {8}}, std::vector<double>(256, 0.25)));
    const nn::Mlp net("mlp", {.widths = {16, 1}, .activation = nn::Tanh()});
    Routine step = ctx.compile(train_step(mean(square(net(x) - 3)), sgd({.lr = 0.05})));
    for (int i = 0; i < 20; ++i) step.run();
    return ctx.read("mlp.0.weight").values();
  };
  Context toy({.seed = 1, .make_device = [](const ContextOptions&) { return std::make_unique<OpenClDevice>(); }}),
      ours({.seed = 1, .device = "interp"});
  EXPECT_EQ(toy.device(), "opencl");
  const std::vector<double> actual = train(toy), expected = train(ours);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5) << i;
}

TEST(OpenCl, IsPrintedWithItsOwnWords) {
  const Tensor x = param("x", Array({.output = {40, 30}}));
  const std::string text =
      text_of(plan::make_plan(to_ir(observe(exp(einsum("i,j => i", x)))), *OpenClDevice().target()).scheduled);
  EXPECT_NE(text.find("__kernel void kernel0(__global const float* restrict x, __global float* restrict"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("for (int64_t i = get_global_id(0); i < 40; i += get_global_size(0)) {"), std::string::npos)
      << text;
  EXPECT_NE(text.find(" = exp("), std::string::npos) << text;
}

}  // namespace
}  // namespace caravan
