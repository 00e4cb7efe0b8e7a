// Contractions in tiles: right, and the same bits as without tiles, whatever the sizes, the order of axes, what is
// fused before and after the product, the number of threads and the processor's vectors.
#include <gtest/gtest.h>

#include "caravan/loop/walk.h"
#include "caravan/plan/plan.h"
#include "pass_table.h"
#include "programs.h"

namespace caravan {
namespace {

Array numbers(const std::string& shape, DType dtype = DType::f32) {
  Array out(parse_shape(shape), dtype);
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, 0.02 * double((i * 7919 + 13) % 101 - 50));
  return out;
}
Tensor input(const std::string& name, const std::string& shape, DType dtype = DType::f32) {
  return param(name, numbers(shape, dtype));
}

const std::string& cache() {
  static const TemporaryFolder folder;
  return folder.path;
}
Array value(const Tensor& result, ContextOptions options) {
  options.cache = cache();
  Context ctx(options);
  Routine routine = ctx.compile(observe(result));
  routine.run();
  return routine.read(result);
}
std::map<std::string, Array> states(const Program& program, ContextOptions options) {
  options.cache = cache();
  Context ctx(options);
  ctx.compile(program).run();
  std::map<std::string, Array> out;
  for (const std::string& name : ctx.names()) out[name] = ctx.read(name);
  return out;
}

bool is_tiled(const loop::Kernel& kernel) {
  return loop::find_of<loop::Combine>(statements(kernel),
                                      [&](const loop::Combine& c) { return kernel.registers[size_t(c.to)].width > 1; });
}
int tiled_kernels(const Program& program) {
  const plan::Plan plan = plan::make_plan(to_ir(program), host(1));
  return int(std::count_if(plan.scheduled.kernels.begin(), plan.scheduled.kernels.end(), is_tiled));
}

struct Case {
  const char* name;
  std::function<Tensor()> result;
  int tiled = 1;  // kernels
};

const std::vector<Case>& cases() {
  static const std::vector<Case> rows = {
      {"rows and columns", [] { return einsum("i,k; k,j => i,j", input("a", "64,48"), input("b", "48,96")); }},
      {"sizes that no tile divides",
       [] { return einsum("i,k; k,j => i,j", input("a", "67,41"), input("b", "41,101")); }},
      {"few rows, few columns", [] { return einsum("i,k; k,j => i,j", input("a", "5,400"), input("b", "400,9")); }},
      {"columns in place, the last vector of which overlaps others",
       [] { return einsum("i,k; k,j => i,j", input("a", "32,200"), input("b", "200,28")); }},
      {"columns in place, with blocks of terms",
       [] { return einsum("i,k; k,j => i,j", input("a", "9,600"), input("b", "600,36")) + input("c", "9,36"); }},
      {"both transposed", [] { return einsum("k,i; j,k => i,j", input("a", "70,50"), input("b", "90,70")); }},
      {"rows far apart", [] { return einsum("k,i; k,j => i,j", input("a", "70,300"), input("b", "70,192")); }},
      {"blocks of terms", [] { return einsum("i,k; k,j => i,j", input("a", "6,2600"), input("b", "2600,24")); }},
      {"blocks of terms, odd sizes",
       [] { return einsum("i,k; j,k => i,j", input("a", "5,1301"), input("b", "17,1301")); }},
      {"a batch", [] { return einsum("b,i,k; b,k,j => b,i,j", input("a", "6,20,16"), input("b", "6,16,24")); }},
      {"several axes of each kind",
       [] { return einsum("b,i,k,l; k,j,l => b,i,j", input("a", "3,9,8,5"), input("b", "8,33,5")); }},
      {"axes in another order",
       [] { return einsum("b,t,h,d; b,s,h,d => b,h,t,s", input("a", "2,16,3,8"), input("b", "2,24,3,8")); }},
      {"a window",
       [] { return einsum("b,y+u,x+v,c; u,v,c,o => b,y,x,o", input("a", "2,9,11,4"), input("b", "3,3,4,20")); }},
      {"a padded window",
       [] { return einsum("b,y=+u,x=+v,c; u,v,c,o => b,y,x,o", input("a", "6,5,7,4"), input("b", "3,3,4,20")); }},
      {"a padded window, with blocks of terms, and something before it and after it",
       [] {
         Tensor y = einsum("b,y=+u,x=+v,c; u,v,c,o => b,y,x,o", relu(input("a", "5,4,5,36")), input("b", "3,3,36,20"));
         return tanh(y + input("c", "20"));
       }},
      {"the gradient of a window by what it sees",
       [] {
         Tensor a = input("a", "9,6,7,12"), y = einsum("b,y+u,x+v,c; u,v,c,o => b,y,x,o", a, input("b", "3,3,12,16"));
         return grad(sum(y * input("d", "9,4,5,16")), a);
       }},
      {"the gradient of a padded window by its weights, in slices",
       [] {
         Tensor b = input("b", "3,3,8,16"), y = einsum("b,y=+u,x=+v,c; u,v,c,o => b,y,x,o", input("a", "8,12,13,8"), b);
         return grad(sum(y * input("d", "8,12,13,16")), b);
       }},
      {"few sums of many terms, in slices, and something after them",
       [] {
         return tanh(einsum("k,i; k,j => i,j", input("a", "4096,7"), input("b", "4096,41")) + input("c", "7,41"));
       }},
      {"a term that one factor has alone",
       [] { return einsum("i,k,l; k,j => i,j", input("a", "30,20,9"), input("b", "20,40")); }},
      {"something before it and after it",
       [] {
         Tensor a = input("a", "64,40"), b = input("b", "40,50"), c = input("c", "64,50");
         return tanh(einsum("i,k; k,j => i,j", relu(a) * 2, b * b) + c);
       }},
      {"two, one after the other",
       [] {
         Tensor h = relu(einsum("i,k; k,j => i,j", input("a", "40,32"), input("b", "32,48")));
         return einsum("i,k; k,j => i,j", h, input("c", "48,40"));
       },
       2},
      {"bf16, summed in f32",
       [] { return einsum("i,k; k,j => i,j", input("a", "66,40", DType::bf16), input("b", "40,50", DType::bf16)); }},
      {"f16, both transposed, with blocks of terms",
       [] { return einsum("k,i; j,k => i,j", input("a", "300,20", DType::f16), input("b", "33,300", DType::f16)); }},
      {"a single row", [] { return einsum("k; k,j => j", input("a", "70"), input("b", "70,100")); }},
      {"a single row, with blocks of terms, and something before it and after it",
       [] { return tanh(einsum("k; k,j => j", relu(input("a", "784")), input("b", "784,100")) + input("c", "100")); }},
      {"a single row, more columns than a tile has",
       [] { return einsum("k; k,j => j", input("a", "40"), input("b", "40,1031")); }},
      {"a single row in each batch",
       [] { return einsum("b,k; b,k,j => b,j", input("a", "5,40"), input("b", "5,40,36")); }},
      {"three rows", [] { return einsum("i,k; k,j => i,j", input("a", "3,50"), input("b", "50,75")); }},
      {"blocks of columns, the last of which would fill no vector",
       [] { return einsum("k,i; k,j => i,j", input("a", "300,28"), input("b", "300,200")); }},
      {"f64",
       [] { return einsum("i,k; k,j => i,j", input("a", "33,40", DType::f64), input("b", "40,35", DType::f64)); }},
  };
  return rows;
}
void expect_right(const Tensor& result, const ContextOptions& options) {
  const Array expected = value(result, {.device = "interp"}), got = value(result, options);
  double largest = 0;
  for (int64_t i = 0; i < expected.size(); ++i) largest = std::max(largest, std::abs(expected.at(i)));
  const DType dtype = got.dtype();  // a narrow float has 8 or 11 significant bits
  const double limit = dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 3e-6;
  for (int64_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(got.at(i), expected.at(i), limit * largest) << i;
}
TEST(Contraction, IsComputedInTilesAndIsRight) {
  for (const Case& row : cases()) {
    SCOPED_TRACE(row.name);
    const Tensor result = row.result();
    EXPECT_EQ(tiled_kernels(observe(result)), row.tiled);
    expect_right(result, {.device = "cpu"});
  }
}

TEST(Contraction, HasTheSameBitsWithoutTilesAndOnAnyNumberOfThreads) {
  for (const Case& row : cases()) {
    SCOPED_TRACE(row.name);
    const Tensor result = row.result();
    const Array tiled = value(result, {.device = "cpu", .threads = 1});
    for (const ContextOptions& options :
         {ContextOptions{.device = "cpu", .threads = 3},
          ContextOptions{.device = "cpu", .compiler_flags = {"-O0"}, .passes_off = {"tile_contractions"}},
          ContextOptions{.device = "cpu",
          .compiler_flags = {"-O0"},
          .passes_off = {"fuse", "pack_operands", "tile_transposes"}}}) {
      const Array other = value(result, options);
      for (int64_t i = 0; i < tiled.size(); ++i) ASSERT_EQ(tiled.at(i), other.at(i)) << i;
    }
  }
}

TEST(Contraction, UpdatesAParameterInPlace) {
  auto step = [] {
    Tensor w = param("w", numbers("40->60"));
    Tensor loss = mean(square(w(tensor(numbers("50|40"))) - tensor(numbers("50|60"))));
    return train_step(loss, sgd({.lr = 0.5, .momentum = 0.9}));
  };
  const auto expected = states(step(), {.device = "interp"}), got = states(step(), {.device = "cpu"}),
             untiled = states(step(), {.device = "cpu", .passes_off = {"tile_contractions"}});
  for (const auto& [name, value] : expected)
    for (int64_t i = 0; i < value.size(); ++i) {
      ASSERT_NEAR(value.at(i), got.at(name).at(i), 1e-6) << name;
      ASSERT_EQ(got.at(name).at(i), untiled.at(name).at(i)) << name;
    }
}

// With a batch of one, the kernel that computes the gradient of a layer's input changes its weights, too.
TEST(Contraction, OfOneRowUpdatesTheMatrixThatItReads) {
  auto step = [](const std::string& hidden) {
    Tensor x = tensor(numbers("1|20")), w0 = param("w0", numbers("20->" + hidden)),
           w1 = param("w1", numbers(hidden + "->30"));
    return train_step(mean(square(w1(tanh(w0(x))) - tensor(numbers("1|30")))), sgd({.lr = 0.5}));
  };
  for (const char* hidden : {"100", "64", "37", "300"}) {  // the last one does not fit into a tile
    SCOPED_TRACE(hidden);
    const auto expected = states(step(hidden), {.device = "interp"}), got = states(step(hidden), {.device = "cpu"}),
               untiled = states(step(hidden), {.device = "cpu", .passes_off = {"tile_contractions"}});
    for (const auto& [name, value] : expected)
      for (int64_t i = 0; i < value.size(); ++i) {
        ASSERT_NEAR(value.at(i), got.at(name).at(i), 1e-6) << name;
        ASSERT_EQ(got.at(name).at(i), untiled.at(name).at(i)) << name;
      }
    const plan::Plan plan = plan::make_plan(to_ir(step(hidden)), host(1));
    const auto updates =
        std::count_if(plan.scheduled.kernels.begin(), plan.scheduled.kernels.end(), [&](const auto& kernel) {
          const auto written = loop::find_of<loop::Store>(statements(kernel), [&](const loop::Store& s) {
            return !s.buffer.is_local() && plan.scheduled.buffers[size_t(s.buffer)].name == "w1";
          });
          return written && is_tiled(kernel);
        });
    EXPECT_EQ(updates, std::string(hidden) != "300" ? 1 : 0);
  }
}

TEST(Contraction, SuitsOtherProcessors) {
  for (const auto& [bytes, registers] : {std::pair(16, 16), std::pair(32, 16), std::pair(64, 32)}) {
    Target target = host(1);
    target.vector_bytes = bytes, target.vector_registers = registers, target.tuning = built_in_tuning(bytes);
    for (const Case& row : cases()) {
      const plan::Plan plan = plan::make_plan(to_ir(observe(row.result())), target);
      verify(plan.scheduled);
      for (const loop::Kernel& kernel : plan.scheduled.kernels)
        for (const loop::RegisterType& type : kernel.registers)
          EXPECT_LE(type.width * caravan::bytes(type.dtype), std::max(bytes, 32)) << row.name;
    }
  }
}

// With flags that allow fewer vectors than the processor has, and no fused multiply-add, on any processor.
TEST(Contraction, IsRightWithShorterVectors) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the flags are those of x86 processors";
#endif
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"-mno-avx512f", "-O0"}, std::vector<std::string>{"-mno-avx", "-O0"}}) {
    const ContextOptions options{.device = "cpu", .cache = cache(), .compiler_flags = flags};
    Context ctx(options);
    const Target target = ctx.compile(observe(cases()[0].result())).plan().target;
    EXPECT_EQ(target.vector_bytes, std::min<int64_t>(host(1).vector_bytes, flags[0] == "-mno-avx" ? 16 : 32));
    EXPECT_EQ(target.fma, host(1).fma && flags[0] != "-mno-avx");
    for (const Case& row : cases()) {
      SCOPED_TRACE(row.name + (" " + flags[0]));
      expect_right(row.result(), options);
    }
  }
}

TEST(Contraction, SuitsALanguageWithoutVectors) {
  Target target = host(1);
  target.vector_bytes = target.tuning.vector_bytes = 4;
  for (const Case& row : cases()) {
    const plan::Plan plan = plan::make_plan(to_ir(observe(row.result())), target);
    verify(plan.scheduled);
    for (const loop::Kernel& kernel : plan.scheduled.kernels)
      for (const loop::RegisterType& type : kernel.registers) EXPECT_EQ(type.width, 1) << row.name;
  }
}

TEST(Contraction, IsNotMadeOfWhatIsTooSmallOrIsNoProduct) {
  const std::vector<std::pair<const char*, std::function<Tensor()>>> rows = {
      {"a small product", [] { return einsum("i,k; k,j => i,j", input("a", "10,16"), input("b", "16,16")); }},
      {"a row whose columns are far apart",
       [] { return einsum("k; j,k => j", input("a", "300"), input("b", "100,300")); }},
      {"a sum of sums", [] {
         Tensor a = input("a", "40,30"), b = input("b", "30,50");
         return einsum("i,k,j => i,j", einsum("i,k => i,k,j", a, {{"j", 50}}) + einsum("k,j => i,k,j", b, {{"i", 40}}));
       }}};
  for (const auto& [name, result] : rows) EXPECT_EQ(tiled_kernels(observe(result())), 0) << name;
}

}  // namespace
}  // namespace caravan
