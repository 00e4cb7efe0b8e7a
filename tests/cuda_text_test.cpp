// Generated CUDA C++ is read by NVIDIA's run-time compiler, which needs no GPU: every gradient case and some models,
// for two kinds of GPU, in both forms of a step; what is compiled is kept; and what one is told without a driver.
#include <gtest/gtest.h>

#include <filesystem>

#include "caravan/backend/cuda/compile.h"
#include "caravan/backend/cuda/device.h"
#include "caravan/backend/cuda/draw.h"
#include "caravan/backend/cuda/driver.h"
#include "caravan/backend/kernel_cache.h"
#include "caravan/backend/nccl/combine.h"
#include "caravan/codegen/cuda.h"
#include "caravan/loop/walk.h"
#include "caravan/plan/plan.h"
#include "contains.h"
#include "gradient_programs.h"

namespace caravan {
namespace {

using codegen::CudaForm;

constexpr int kAmpere = 80, kHopper = 90;  // compute capabilities

class CudaText : public testing::Test {
 protected:
  void SetUp() override {
    try {
      cuda::nvrtc();
    } catch (const cuda::NoGpuError& error) {
      GTEST_SKIP() << error.what();
    }
  }
  static std::vector<std::string> texts(const ir::Program& program, int compute, CudaForm form) {
    return codegen::to_cuda(plan::make_plan(program, gpu_target(gpu_of(compute, Gpu().multiprocessors))).scheduled,
                            form)
        .texts;
  }
  cuda::Compiled compile(const std::vector<std::string>& texts, int compute,
                         const std::vector<std::string>& options = {}) const {
    return cuda::compile(texts, compute, {.cache = cache_.path, .more = options});
  }
  // Many texts are compiled without most optimisations, by a compiler that has an option for that.
  static std::vector<std::string> quickly() {
    return cuda::nvrtc().major >= 13 ? std::vector<std::string>{"--Ofast-compile=mid"} : std::vector<std::string>{};
  }
  void expect_compiled(const ir::Program& program, int compute, CudaForm form,
                       const std::vector<std::string>& options = {}) const {
    const std::vector<std::string> given = texts(program, compute, form);
    const cuda::Compiled made = compile(given, compute, options);
    ASSERT_EQ(made.codes.size(), given.size());
    for (const std::string& code : made.codes)
      EXPECT_TRUE(
          code.starts_with("\x7f"
                           "ELF"));
  }
  const TemporaryFolder cache_;
};

// ---------------------------------------------------------------- every gradient case

// All cases together, in f32 or as they are, in f64.
ir::Program all_cases(bool in_single, size_t every, size_t first) {
  const std::vector<GradientProgram> all = gradient_programs();
  EXPECT_GT(all.size(), 100u);
  std::vector<Task> tasks;
  for (size_t k = first; k < all.size(); k += every) {
    Task task = task_of(all[k].program, all[k].indices);
    tasks.push_back(in_single ? in_f32(std::move(task)) : std::move(task));
  }
  return joined(tasks).program;
}

TEST_F(CudaText, EveryGradientCaseIsCompiledForBothKindsOfGpu) {
  for (const int compute : {kHopper, kAmpere})
    expect_compiled(all_cases(true, 1, 0), compute, CudaForm::launches, quickly());
}
TEST_F(CudaText, InitialValues) {
  for (const int compute : {kHopper, kAmpere}) EXPECT_EQ(compile({cuda::draw_text()}, compute).codes.size(), 1u);
}
TEST_F(CudaText, GradientCasesInDouble) {
  expect_compiled(all_cases(false, 6, 0), kHopper, CudaForm::launches, quickly());
}
TEST_F(CudaText, GradientCasesInOneBlock) {
  expect_compiled(all_cases(true, 24, 2), kHopper, CudaForm::one_block, quickly());
}

// ---------------------------------------------------------------- models

Array numbers(const std::string& shape) { return Array(parse_shape(shape)); }
Tensor ids(const std::string& shape) { return tensor(Array(parse_shape(shape), DType::i32)); }

struct Model {
  const char* name;
  Program (*step)();
};
const Model kModels[] = {
    {"an MLP with dropout",
     [] {
       const nn::Sequential net({nn::Linear("in", {.output = {64}}), nn::Tanh(), nn::Dropout("drop", 0.1),
                                 nn::Linear("out", {.output = {10}})});
       const Index step("step");
       return train_step(nn::cross_entropy(net(numbers("32|20"), nn::training({.step = step})), ids("32|")),
                         sgd({.lr = 0.1}));
     }},
    {"a convolutional net",
     [] {
       const nn::Sequential net({nn::Conv2d("conv", {.channels = 16, .kernel = 3, .padding = nn::same}), nn::Relu(),
                                 nn::MaxPool2d(), nn::Rearrange{"... | h, w, c => ... | h&w&c"},
                                 nn::Linear("out", {.output = {10}})});
       return train_step(nn::cross_entropy(net(numbers("16|12,12,3")), ids("16|")), adam({.lr = 0.1}));
     }},
    {"a GPT",
     [] {
       const nn::Gpt model({.vocab = 28, .ctx = 16, .dim = 32, .heads = 4, .layers = 2});
       return train_step(nn::cross_entropy(model(ids("8,16|")), ids("8,16|")), adam({.lr = 0.1}));
     }},
};

TEST_F(CudaText, ModelsAreCompiledInBothForms) {
  for (const Model& model : kModels) {
    SCOPED_TRACE(model.name);
    const ir::Program step = to_ir(model.step());
    if (&model != &kModels[0]) {  // the others would take a minute
      expect_compiled(step, kHopper, CudaForm::launches, quickly());
      continue;
    }
    expect_compiled(step, kHopper, CudaForm::launches);
    expect_compiled(step, kAmpere, CudaForm::launches, quickly());
    expect_compiled(step, kHopper, CudaForm::one_block);
    expect_compiled(step, kHopper, CudaForm::separate);
  }
}

// For cuda-gdb nothing is optimised away, not even the branch of a template that is never taken.
TEST_F(CudaText, CodeForADebugger) {
  setenv("CARAVAN_CUDA_DEBUG", "1", 1);
  expect_compiled(to_ir(kModels[2].step()), kHopper, CudaForm::separate);
  unsetenv("CARAVAN_CUDA_DEBUG");
}

// A block has 48 KiB of shared memory, also for numbers of 8 bytes and for tiles of several slices.
// Blocks of threads look for the ids of their rows (schedule/gpu_scatters.h): the last block of 5,003 rows has fewer.
// The kernel that combines what GPUs send to each other, for every precision.
TEST_F(CudaText, ValuesThatGpusExchangeAreCombined) {
  std::vector<std::string> texts;
  for (const DType dtype :
       {DType::boolean, DType::u8, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64})
    for (const Accumulator a : {Accumulator::add, Accumulator::max}) texts.push_back(nccl::combine_text(dtype, a));
  for (const Accumulator a : {Accumulator::mul, Accumulator::min, Accumulator::or_, Accumulator::and_})
    texts.push_back(nccl::combine_text(DType::i32, a));
  EXPECT_EQ(compile(texts, kAmpere).codes.size(), texts.size());
}

TEST_F(CudaText, SumsIntoLargeTables) {
  const Tensor g = param("g", numbers("40,50|96")), h = param("h", numbers("2000|"));
  const ir::Program sums =
      to_ir(observe({scatter_add(g, ids("40,50|"), 5003), scatter_add(cast(h, DType::f64), ids("2000|"), 60'000)}));
  const std::vector<std::string> given = texts(sums, kHopper, CudaForm::launches);
  EXPECT_CONTAINS(given[0], "caravan_scatter<1024, 10, float>(");
  EXPECT_CONTAINS(given[0], "caravan_scatter<1024, 114, double>(");
  for (const CudaForm form : {CudaForm::launches, CudaForm::one_block}) expect_compiled(sums, kHopper, form);
}

// Neighbours, and columns that a thread adds up together (schedule/gpu_pieces.h).
TEST_F(CudaText, WhatAThreadMovesTogether) {
  const Tensor x = param("x", {.output = {128, 36864}, .init = zeros()});
  std::vector<Tensor> results;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const Tensor y = cast(exp(x), dtype);
    results.push_back(y), results.push_back(einsum("i,j => j", y));
  }
  const ir::Program program = to_ir(observe(results));
  std::string all;
  for (const std::string& text : texts(program, kHopper, CudaForm::launches)) all += text;
  EXPECT_CONTAINS(all, "caravan_load<4, float>(");
  EXPECT_CONTAINS(all, "columns1[n]");
  expect_compiled(program, kHopper, CudaForm::launches);
}

TEST_F(CudaText, ProductsOfAllTilesFitIntoSharedMemory) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    std::vector<Tensor> products;
    for (const auto& [left, right] : {std::pair("2048,64", "64,2048"), std::pair("512,256", "256,1024"),
                                      std::pair("64,1024", "1024,64"), std::pair("64,128", "128,64")})
      products.push_back(einsum("i,k; k,o => i,o", cast(param(std::string("x") + left, numbers(left)), dtype),
                                cast(param(std::string("w") + left, numbers(right)), dtype)));
    expect_compiled(to_ir(observe(products)), kHopper, CudaForm::launches);
  }
}
TEST_F(CudaText, ProductsOfOneBlockTakeTurnsWithItsSharedMemory) {
  std::vector<Tensor> products;
  for (const auto& [left, right] :
       {std::pair("8,512", "512,8"), std::pair("16,128", "128,16"), std::pair("32,64", "64,32")})
    products.push_back(einsum("i,k; k,o => i,o", param(std::string("x") + left, numbers(left)),
                              param(std::string("w") + left, numbers(right))));
  expect_compiled(to_ir(observe(products)), kHopper, CudaForm::one_block);
}

TEST_F(CudaText, AttentionInEveryPrecision) {
  struct Row {
    std::optional<DType> precision;
    int64_t depth;
    bool causal, tf32;
    int compute;
  };
  for (const Row& row : {Row{DType::bf16, 64, true, false, kHopper}, Row{DType::f16, 24, false, false, kAmpere},
                         Row{std::nullopt, 64, true, true, kAmpere}, Row{std::nullopt, 128, false, false, kHopper}}) {
    auto given = [&](const char* name) { return param(name, numbers("2,96|2," + std::to_string(row.depth))); };
    const Tensor y = nn::attend(given("q"), given("k"), given("v"), {.causal = row.causal},
                                nn::training({.precision = row.precision}));
    const ir::Program step = to_ir(train_step(mean(square(cast(y, DType::f32))), sgd({.lr = 1})));
    const Target target = gpu_target({.compute = row.compute, .stored_scores = 0, .tf32 = row.tf32});
    const std::vector<std::string> all =
        codegen::to_cuda(plan::make_plan(step, target).scheduled, CudaForm::launches).texts;
    EXPECT_CONTAINS(all[0], "caravan_attention_columns<");
    compile(all, row.compute, quickly());
  }
  const Tensor q = param("q", numbers("1,16|1,16"));
  compile(texts(to_ir(observe(nn::attend(q, q, q))), kHopper, CudaForm::one_block), kHopper);
}

// Each kernel has one place in the launches of a step, and stages come in order.
TEST(CudaLaunches, EveryKernelIsLaunchedOnce) {
  for (const Model& model : kModels) {
    SCOPED_TRACE(model.name);
    const loop::Module module = plan::make_plan(to_ir(model.step()), gpu_target()).scheduled;
    const codegen::CudaText together = codegen::to_cuda(module, CudaForm::launches),
                            separate = codegen::to_cuda(module, CudaForm::separate);
    for (const codegen::CudaText* text : {&together, &separate}) {
      std::vector<int> launched(module.kernels.size(), 0);
      int stage = -1;
      for (const auto& launch : text->launches) {
        for (const size_t k : launch.kernels) {
          ++launched[k];
          EXPECT_GE(module.kernels[k].grid.stage, stage);
          EXPECT_EQ(module.kernels[k].grid.stage, module.kernels[launch.kernels[0]].grid.stage);
        }
        stage = module.kernels[launch.kernels[0]].grid.stage;
      }
      EXPECT_EQ(launched, std::vector<int>(module.kernels.size(), 1));
    }
    EXPECT_EQ(separate.launches.size(), module.kernels.size());
    EXPECT_LT(together.launches.size(), separate.launches.size());
  }
}

// A call of a library has a launch without a function, and is shown as a comment.
TEST(CudaLaunches, ACallOfALibraryIsShown) {
  Gpu gpu;
  gpu.library_products = true;
  gpu.called_f32 = {1, 0};
  const Tensor x = param("x", numbers("64,48")), w = param("w", numbers("48,32"));
  const loop::Module module =
      plan::make_plan(to_ir(observe(tanh(einsum("i,k; k,o => i,o", x, w)))), gpu_target(gpu)).scheduled;
  const codegen::CudaText text = codegen::to_cuda(module, CudaForm::launches);
  ASSERT_EQ(text.launches.size(), 2u);
  EXPECT_EQ(text.launches[0].function, "");
  EXPECT_EQ(text.launches[0].kernels, std::vector<size_t>{0});
  EXPECT_NE(text.launches[1].function, "");
  EXPECT_CONTAINS(text.texts[0],
                  "library product of x[48*row + term] and w[column + 32*term] for row < 64, column < 32, term < 48");
}

// The lanes of spread groups are in all warps of a block, so their barrier is that of the block. No thread may miss it,
// as it would in a guard that depends on the group.
TEST(CudaLaunches, NoBarrierOfABlockIsInAGuard) {
  const loop::Module module = plan::make_plan(all_cases(true, 1, 0), gpu_target()).scheduled;
  size_t spread = 0;
  for (const loop::Kernel& kernel : module.kernels) {
    if (!kernel.grid.spread) continue;
    ++spread;
    loop::for_each_of<loop::If>(loop::statements(kernel), [&](const loop::If& guard) {
      bool waits = false;
      loop::for_each_of<loop::Barrier>(guard.body, [&](const loop::Barrier&) { waits = true; });
      loop::for_each_of<loop::Define>(guard.body, [&](const loop::Define& d) {
        waits = waits || std::holds_alternative<loop::AcrossLanes>(d.value);
      });
      EXPECT_FALSE(waits) << loop::to_string(module, kernel);
    });
  }
  EXPECT_GT(spread, 0u);
}

// ---------------------------------------------------------------- the compiler

TEST_F(CudaText, WhatWasCompiledIsKeptForThisKindOfGpu) {
  const std::vector<std::string> given =
      texts(to_ir(observe(exp(param("x", numbers("100"))))), kHopper, CudaForm::launches);
  const cuda::Compiled first = compile(given, kHopper), second = compile(given, kHopper);
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(second.codes, first.codes);
  EXPECT_EQ(second.sources, first.sources);
  ASSERT_EQ(first.sources.size(), given.size());
  for (const std::string& source : first.sources) EXPECT_TRUE(std::filesystem::exists(source)) << source;
  EXPECT_FALSE(compile(given, kAmpere).from_cache);
}

TEST_F(CudaText, TheSameModelAtAnotherLineIsNotCompiledAgain) {
  auto at = [&](int line) {
    const Source where{"model.cpp", line};
    return texts(to_ir(observe(exp(Operand(param("x", numbers("100"), where), where)))), kHopper, CudaForm::launches);
  };
  EXPECT_NE(at(12), at(13));
  EXPECT_FALSE(compile(at(12), kHopper).from_cache);
  EXPECT_TRUE(compile(at(13), kHopper).from_cache);
}

TEST_F(CudaText, TheCacheCountsAndRemovesWhatWasCompiled) {
  const std::vector<std::string> given =
      texts(to_ir(observe(exp(param("x", numbers("100"))))), kHopper, CudaForm::launches);
  const cuda::Compiled made = compile(given, kHopper);
  const backend::KernelCache cache(cache_.path);
  EXPECT_EQ(cache.content().kernels, int64_t(given.size()));
  EXPECT_GT(cache.content().bytes, int64_t(made.codes[0].size()));
  EXPECT_EQ(cache.clear().kernels, int64_t(given.size()));
  EXPECT_TRUE(std::filesystem::is_empty(cache_.path));
}

TEST_F(CudaText, TextThatIsRefusedIsNamedWithWhatTheCompilerSays) {
  try {
    compile({"__global__ void f() { frobnicate(); }"}, kHopper);
    FAIL() << "it was compiled";
  } catch (const BackendError& error) {
    EXPECT_CONTAINS(std::string(error.what()), "CUDA's run-time compiler refuses generated text.");
    EXPECT_CONTAINS(std::string(error.what()), "source:  " + cache_.path);
    EXPECT_CONTAINS(std::string(error.what()), "frobnicate");
  }
}

// ---------------------------------------------------------------- without a driver

TEST(CudaDevice, IsRefusedInOneSentenceWithoutADriver) {
  if (cuda::facts().count > 0) GTEST_SKIP() << "there is a GPU here";
  const std::string& why = cuda::facts().note;
  EXPECT_FALSE(why.empty());
  EXPECT_FALSE(why.ends_with('.')) << why;
  for (const std::string device : {"cuda", "cuda:0", "cuda:1"}) {
    try {
      Context ctx({.device = device});
      FAIL() << device << " was made";
    } catch (const ConfigError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("the device `" + device + "` cannot be used: " + why + "."))
          << error.what();
    }
  }
}

}  // namespace
}  // namespace caravan
