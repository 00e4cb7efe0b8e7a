// Long sums of floats: how exact they are, that their bits depend on nothing but the sum, and the passes that order
// them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "caravan/backend/cc/device.h"
#include "caravan/base/error.h"
#include "caravan/caravan.h"
#include "caravan/deploy/c99.h"
#include "caravan/jit/jit.h"
#include "caravan/lower/lower.h"
#include "caravan/optimize/copy_leaves.h"
#include "caravan/optimize/remove_unused.h"
#include "caravan/optimize/split_sums.h"
#include "caravan/plan/plan.h"
#include "caravan/schedule/split_loops.h"
#include "caravan/schedule/vectorize.h"
#include "programs.h"

namespace caravan {
namespace {

using ir::SumOrder;

Tensor filled(const std::string& name, const std::string& shape, double value) {
  const Shape s = parse_shape(shape);
  return param(name, Array(s, std::vector<double>(size_t(s.elements()), value)));
}
Tensor leaf(const std::string& name, const std::string& shape) { return filled(name, shape, 0); }
bool same_bits(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), size_t(a.size() * bytes(a.dtype()))) == 0;
}

// ---------------------------------------------------------------- how exact

// Terms that are all equal are the worst case: each addition rounds to the same side. One chain of a million would be
// off by 1e-3, of 40 million by 4 %; eight partial sums by an eighth of that.
TEST(LongSums, AreOffByAFewRoundings) {
  constexpr double tenth = double(0.1f), bound = 1.5e-6;
  struct Row {
    const char* name;
    std::function<Tensor()> tensor;
    double expected;
  };
  const Row rows[] = {
      {"the mean of a million", [] { return mean(filled("x", "1000000", 0.1)); }, tenth},
      {"of a prime number of them", [] { return mean(filled("x", "999983", 0.1)); }, tenth},
      {"of a matrix", [] { return mean(filled("x", "1000,1000", 0.1)); }, tenth},
      {"of a matrix whose rows lanes do not divide", [] { return mean(filled("x", "1001,1003", 0.1)); }, tenth},
      {"of 40 million products",
       [] { return einsum("i; j => ", filled("x", "5000", 0.1), filled("y", "8000", 1)) / 4e7; }, tenth},
      {"the mean square error of a million",
       [] { return nn::mse(filled("x", "1000|1000", 0.1), filled("y", "1000|1000", 0)); }, tenth * tenth},
      {"means of columns", [] { return einsum("b,c => c", filled("x", "100000,16", 0.1)) / 1e5; }, tenth},
      {"of columns of a prime number of rows", [] { return einsum("b,c => c", filled("x", "99991,16", 0.1)) / 99991; },
       tenth},
      {"of columns that do not lie side by side",
       [] { return einsum("b,c,h => b,h", filled("x", "3,50000,2", 0.1)) / 5e4; }, tenth},
      {"the gradient of a bias",
       [] {
         const Tensor bias = filled("bias", "8", 0);
         return grad(mean(filled("x", "100000|8", 1) * (filled("y", "100000|8", 0.1) + bias)), bias) * 8;
       },
       1},
      {"over many short axes", [] { return einsum("b,h,w,c => c", filled("x", "64,28,28,8", 0.1)) / (64 * 28 * 28); },
       tenth},
      {"over short axes around the channels",
       [] { return einsum("b,c,h,w => c", filled("x", "64,8,28,28", 0.1)) / (64 * 28 * 28); }, tenth},
      {"a product with a long inner axis",
       [] { return einsum("i,k; k,j => i,j", filled("x", "3,20000", 0.1), filled("y", "20000,16", 1)) / 2e4; }, tenth},
      {"a product along rows",
       [] { return einsum("i,k; j,k => i,j", filled("x", "3,20000", 0.1), filled("y", "16,20000", 1)) / 2e4; }, tenth},
      {"in bf16, which is summed in f32",
       [] { return cast(mean(cast(filled("x", "1000000", 0.125), DType::bf16)), DType::f32); }, 0.125},
  };
  for (const Row& row : rows) {
    Context ctx({.device = "cpu"});
    const Array value = ctx.eval(row.tensor());
    for (double v : value.values()) EXPECT_NEAR(v / row.expected, 1, bound) << row.name;
  }
}

// ---------------------------------------------------------------- the same bits

// A sum over some axes of one or two operands, each with its axes in another order; extents on both sides of a block.
class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}
  Tensor sum(const std::string& name) {
    const int axes = 1 + pick(3);
    std::string all, kept;
    std::vector<int64_t> extents;
    int64_t elements = 1;
    for (int k = 0; k < axes; ++k) {
      extents.push_back(extent(elements));
      elements *= extents.back();
      all += char('i' + k);
      if (one_in(3)) kept += char('i' + k);
    }
    std::string spec, first = shuffled(all), second = shuffled(all);
    const bool two = one_in(2);
    if (two && second.size() > 1 && one_in(2)) second.pop_back();  // what it lacks, the first one has
    const Tensor x = operand(name + ".x", first, extents), y = operand(name + ".y", second, extents);
    spec = listed(first) + (two ? "; " + listed(second) : "") + " => " + listed(shuffled(kept));
    const Tensor out =
        two ? einsum(caravan::spec(spec, Source::here()), x, y) : einsum(caravan::spec(spec, Source::here()), x);
    return out.named(name + " " + spec);
  }

 private:
  int pick(int n) { return int(random_() % uint32_t(n)); }
  bool one_in(int n) { return pick(n) == 0; }
  int64_t extent(int64_t around) {
    static constexpr int64_t kExtents[] = {2,   5,   16,   28,   33,   64,   65,   250,   257,
                                           300, 512, 1000, 1023, 2048, 2051, 4099, 16385, 40000};
    const int64_t e = kExtents[pick(std::size(kExtents))];
    return e * around <= 300'000 ? e : 1;
  }
  std::string shuffled(std::string text) {
    std::shuffle(text.begin(), text.end(), random_);
    return text;
  }
  static std::string listed(const std::string& axes) {
    std::string out;
    for (char a : axes) out += (out.empty() ? "" : ", ") + std::string(1, a);
    return out;
  }
  // Positive, so that the error is relative to the sum.
  Tensor operand(const std::string& name, const std::string& axes, const std::vector<int64_t>& extents) {
    Shape shape;
    for (char a : axes) shape.output.push_back({extents[size_t(a - 'i')]});
    std::vector<double> values(size_t(shape.elements()));
    for (double& v : values) v = 0.5 + double(random_() >> 8) / double(1u << 24);
    return param(name, Array(shape, values));
  }
  std::mt19937 random_;
};

constexpr int kSums = 24;
std::vector<Tensor> random_sums() {
  const char* seed = std::getenv("CARAVAN_TEST_SEED");
  std::vector<Tensor> out;
  for (int k = 0; k < kSums; ++k)
    out.push_back(Generator(uint32_t((seed ? std::atoi(seed) : 0) + k)).sum("s" + std::to_string(k)));
  return out;
}
Program observed(const std::vector<Tensor>& tensors) {
  Program out;
  for (const Tensor& t : tensors) out &= observe(t);
  return out;
}
std::vector<Array> results(const std::vector<Tensor>& sums, const Program& program, const ContextOptions& options) {
  Context ctx(options);
  Routine routine = ctx.compile(program);
  routine.run();
  std::vector<Array> out;
  for (const Tensor& t : sums) out.push_back(routine.read(t));
  return out;
}
// With more around them: what is computed from a sum may be fused with it, what it is computed from be inlined.
Program in_company(const std::vector<Tensor>& sums) {
  Program out = observed(sums);
  for (const Tensor& t : sums) out &= observe(tanh(t) + exp(-t));
  return out;
}

TEST(LongSums, RandomOnesAreNearTheInterpreter) {
  const std::vector<Tensor> sums = random_sums();
  const std::vector<Array> compiled = results(sums, observed(sums), {.device = "cpu"}),
                           exact = results(sums, observed(sums), {.device = "interp"});
  for (size_t k = 0; k < sums.size(); ++k)
    for (int64_t i = 0; i < exact[k].size(); ++i)
      ASSERT_NEAR(compiled[k].at(i) / exact[k].at(i), 1, 1.5e-6) << "sum " << k << ", element " << i;
}
TEST(LongSums, HaveTheSameBitsOnAnyNumberOfThreadsWithoutEachPassAndInCompany) {
  const std::vector<Tensor> sums = random_sums();
  const std::vector<Array> all = results(sums, observed(sums), {.device = "cpu"});
  auto expect_same = [&](const std::vector<Array>& other, const std::string& what) {
    for (size_t k = 0; k < sums.size(); ++k) EXPECT_TRUE(same_bits(all[k], other[k])) << "sum " << k << " " << what;
  };
  for (int threads : {1, 2, 7})
    expect_same(results(sums, observed(sums), {.device = "cpu", .threads = threads}),
                "on " + std::to_string(threads) + " threads");
  std::vector<std::string> passes = plan::pass_names();
  std::erase(passes, "solve_writes");  // it alone may sum in another order
  for (const std::string& pass : passes)
    expect_same(results(sums, observed(sums), {.device = "cpu", .compiler_flags = {"-O0"}, .passes_off = {pass}}),
                "without " + pass);
  expect_same(results(sums, observed(sums), {.device = "cpu", .compiler_flags = {"-O0"}, .passes_off = passes}),
              "without passes");
  expect_same(results(sums, in_company(sums), {.device = "cpu"}), "with functions of them");
  for (size_t k = 0; k < sums.size(); k += 8)
    expect_same({[&] {
                  std::vector<Array> one = all;
                  one[k] = results({sums[k]}, observe(sums[k]), {.device = "cpu"})[0];
                  return one;
                }()},
                "alone");
}

TEST(LongSums, OfTheTextInterfaceAndOfExportedFilesHaveThem) {
  std::mt19937 random(3);
  std::vector<double> values(4099 * 3);
  for (double& v : values) v = 0.5 + double(random() >> 8) / double(1u << 24);
  const Array x(parse_shape("4099,3"), values);
  const std::vector<float> memory(values.begin(), values.end());
  Context ctx({.device = "cpu"});
  const Tensor input = param("x", x);
  const Array columns = ctx.eval(einsum("b,c => c", input)), whole = ctx.eval(einsum("b,c => ", input));

  float by_column[3] = {}, total = 0;
  jit::compile("y[c] += x[b, c] for b < 4099, c < 3").run({{"x", memory.data()}, {"y", by_column}});
  jit::compile("z += x[b, c] for b < 4099, c < 3").run({{"x", memory.data()}, {"z", &total}});
  for (int c = 0; c < 3; ++c) EXPECT_EQ(by_column[c], float(columns.at(c)));
  EXPECT_EQ(total, float(whole.at(0)));

  if (std::system("cc --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no C compiler `cc` here";
  const TemporaryFolder folder;
  const std::string path = folder.path + "/";
  const Tensor each = einsum("b,c => c", input), of_all = einsum("b,c; o => o", input, filled("one", "1", 1));
  for (const auto& [output, expected] : {std::pair(each, columns), std::pair(of_all, ctx.eval(of_all))}) {
    std::ofstream(path + "model.c") << deploy::to_c99(ctx, input, output).source;
    std::ofstream in(path + "input");
    in.precision(9);
    for (float v : memory) in << v << "\n";
    in.close();
    const std::string command =
        "cd " + path +
        " && cc -O2 -std=c99 -ffp-contract=off -DMODEL_MAIN model.c -o model -lm && ./model < input > output";
    ASSERT_EQ(std::system(command.c_str()), 0);
    std::ifstream out(path + "output");
    for (int64_t i = 0; i < expected.size(); ++i) {
      std::string word;
      out >> word;
      EXPECT_EQ(float(std::strtod(word.c_str(), nullptr)), float(expected.at(i)));
    }
  }
}

// Three iterators that meet in one axis are added into memory; the long axis beside them is no sum in a register.
TEST(LongSums, ThatAreScatteredHaveNoStatedOrder) {
  const char* text = "y[i + j + k] += a[i, j, k, m] for i < 3, j < 3, k < 3, m < 3000";
  const ir::Program p = optimize::split_sums(jit::parse_program(text), host());
  for (const ir::Accumulation& a : p.accumulations) EXPECT_EQ(a.order, SumOrder{}) << ir::to_string(p, a);
  const std::vector<float> a(27 * 3000, 0.5f);
  float y[7] = {};
  jit::compile(text).run({{"a", a.data()}, {"y", y}});
  const int ways[7] = {1, 3, 6, 7, 6, 3, 1};  // to write a number as i + j + k
  for (int n = 0; n < 7; ++n) EXPECT_EQ(y[n], 1500.0f * float(ways[n])) << n;
}

// ---------------------------------------------------------------- the passes

std::string trimmed(const std::string& text) { return text.substr(text.starts_with('\n')); }
TEST(Extremes, InLanesAreTheSameNumbers) {
  for (int64_t columns : {31, 32, 35, 64, 257}) {
    constexpr int64_t kRows = 6;
    Array x(Shape{.output = {{kRows}, {columns}}}, DType::f32);
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, double((i * 7919 + 13) % 1009) - 500);
    const double infinity = std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < columns; ++j) x.set(columns + j, -infinity), x.set(2 * columns + j, infinity);
    x.set(3 * columns + columns - 1, std::nan(""));
    x.set(4 * columns + 3, std::nan(""));
    const Tensor a = param("a", x);
    const std::vector<Tensor> both = {einmax("i,j => i", a), einmin("i,j => i", a)};
    const std::vector<Array> found = results(both, observed(both), {.device = "cpu"}),
                             one_by_one = results(both, observed(both), {.device = "cpu", .passes_off = {"vectorize"}});
    for (int64_t i = 0; i < kRows; ++i)
      for (size_t k = 0; k < 2; ++k) {
        double best = x.at(i * columns);
        for (int64_t j = 1; j < columns; ++j) {
          const double value = x.at(i * columns + j);
          if (std::isnan(value) || (k == 0 ? value > best : value < best)) best = value;
        }
        if (i == 3 || i == 4)
          EXPECT_TRUE(std::isnan(found[k].at(i)) && std::isnan(one_by_one[k].at(i))) << columns << ", row " << i;
        else
          EXPECT_TRUE(found[k].at(i) == best && one_by_one[k].at(i) == best) << columns << ", row " << i;
      }
  }
}

ir::Program ordered(const Program& program) {
  return optimize::split_sums(optimize::remove_unused(optimize::copy_leaves(to_ir(program))), host());
}

TEST(SplitSums, StatesBlocks) {
  struct Row {
    const char* name;
    std::function<Tensor()> tensor;
    const char* order;
  };
  const Row rows[] = {
      {"a chain of 256 is short enough", [] { return einsum("b,c => c", leaf("x", "256,64")); }, ""},
      {"one of 257 is not", [] { return einsum("b,c => c", leaf("x", "257,64")); }, "summed in blocks of 64 b"},
      {"blocks that leave nothing over", [] { return einsum("b,c => c", leaf("x", "1000,64")); },
       "summed in blocks of 50 b"},
      {"blocks of blocks", [] { return einsum("b,c => c", leaf("x", "100000,64")); },
       "summed in blocks of 50 b, 1250 b, 25000 b"},
      {"lanes are eight chains", [] { return einsum("i => ", leaf("x", "2048")); }, ""},
      {"each of which has blocks", [] { return einsum("i => ", leaf("x", "2056")); },
       "summed in 8 lanes of i, blocks of 512 i"},
      {"a million", [] { return einsum("i => ", leaf("x", "1000000")); },
       "summed in 8 lanes of i, blocks of 400 i, 10000 i, 250000 i"},
      {"several iterators are one chain", [] { return einsum("b,h,w,c => c", leaf("x", "8,28,28,32")); },
       "summed in blocks of 2 h, 2 b"},
      {"each row is a block", [] { return einsum("b,h,c => c", leaf("x", "10,100,32")); }, "summed in blocks of 1 b"},
      {"lanes with something left over are added for each row", [] { return einsum("i,j => ", leaf("x", "100,33")); },
       "summed in 8 lanes of j, blocks of 5 i"},
      {"a maximum", [] { return einmax("b,c => c", leaf("x", "1000,64")); }, ""},
      {"integers", [] { return einsum("b,c => c", cast(leaf("x", "1000,64"), DType::i32)); }, ""},
      {"written through an index tensor",
       [] {
         return scatter_add(leaf("v", "1000|8"),
                            tensor(Array(parse_shape("1000|"), std::vector<double>(1000, 1), DType::i32)), 3);
       },
       ""},
  };
  for (const Row& row : rows) {
    const ir::Program p = ordered(observe(row.tensor()));
    ir::verify(p);
    const std::string line = ir::to_string(p, p.accumulations.back());
    const size_t at = line.find("summed in");
    EXPECT_EQ(at == line.npos ? "" : line.substr(at), row.order) << row.name << ": " << line;
  }
}

TEST(SumOrder, MustRefuse) {
  struct Row {
    const char* reason;
    SumOrder order;
  };
  const Row rows[] = {
      // of y[i] += a[i, j, k] over i < 4, j < 100, k < 640
      {"a written iterator", {-1, 0, {{0, 2}}}},
      {"an iterator that does not exist", {-1, 0, {{3, 2}}}},
      {"no iterator", {-1, 0, {{-1, 2}}}},
      {"an empty block", {-1, 0, {{1, 0}}}},
      {"a block that is all of it", {-1, 0, {{1, 100}}}},
      {"blocks of blocks that do not fit", {-1, 0, {{1, 10}, {1, 25}}}},
      {"one block twice", {-1, 0, {{1, 10}, {1, 10}}}},
      {"the larger block first", {-1, 0, {{1, 20}, {1, 10}}}},
      {"the outer loop first", {-1, 0, {{1, 10}, {2, 10}}}},
      {"lanes are the innermost loop", {1, 8, {{2, 10}, {1, 16}}}},
      {"lanes across blocks", {2, 8, {{2, 12}}}},
      {"lanes of no number", {2, 0, {}}},
      {"one lane", {2, 1, {}}},
      {"a number of lanes along nothing", {-1, 8, {}}},
  };
  const ir::Program program = to_ir(observe(einsum("i,j,k => i", leaf("a", "4,100,640"))));
  for (const Row& row : rows) {
    ir::Program p = program;
    p.accumulations.back().order = row.order;
    EXPECT_THROW(ir::verify(p), InternalError) << row.reason;
  }
  for (const SumOrder& order : {SumOrder{2, 8, {{2, 64}, {1, 1}, {1, 10}}},
                                SumOrder{-1, 0, {{2, 10}, {2, 100}, {1, 5}}}, SumOrder{1, 8, {{1, 16}, {2, 4}}}}) {
    ir::Program p = program;
    p.accumulations.back().order = order;
    EXPECT_NO_THROW(ir::verify(p));
    EXPECT_FALSE(ir::equal(p, p.accumulations.back(), program, program.accumulations.back()))
        << "another order is another sum";
    EXPECT_NE(ir::hash(p, p.accumulations.back()), ir::hash(program, program.accumulations.back()));
  }
  ir::Program largest = to_ir(observe(einmax("i,j => i", leaf("a", "4,640"))));
  largest.accumulations.back().order.blocks = {{1, 64}};
  EXPECT_THROW(ir::verify(largest), InternalError) << "a maximum";
}

struct LoopRow {
  const char* name;
  std::function<Program()> program;
  const char* before;
  const char* after;
};
std::string loops(const loop::Module& module) { return joined(lines_of(loop::to_string(module))); }

TEST(SplitLoops, Blocks) {
  const LoopRow rows[] = {
      {"blocks with a sum of their own", [] { return observe(einsum("b,c => c", leaf("x", "1000,64")).named("y")); },
       R"(
kernel y
  for c < 64:
    r1:f32 := 0
    for b < 1000 in blocks of 50:
      r0:f32 = x[c + 64*b]
      r1 += r0
    y[c] = r1
)",
       R"(
kernel y
  for c < 64:
    r1:f32 := 0
    for b_block < 20:
      r2:f32 := 0
      for b < 50:
        r3:f32 = x[c + 64*b + 3200*b_block]
        r2 += r3
      r1 += r2
    y[c] = r1
)"},
      {"what is left over is a block", [] { return observe(einsum("b,c => c", leaf("x", "257,64")).named("y")); }, R"(
kernel y
  for c < 64:
    r1:f32 := 0
    for b < 257 in blocks of 64:
      r0:f32 = x[c + 64*b]
      r1 += r0
    y[c] = r1
)",
       R"(
kernel y
  for c < 64:
    r1:f32 := 0
    for b_block < 4:
      r2:f32 := 0
      for b < 64:
        r3:f32 = x[c + 64*b + 4096*b_block]
        r2 += r3
      r1 += r2
    r4:f32 := 0
    r5:f32 = x[c + 16384]
    r4 += r5
    r1 += r4
    y[c] = r1
)"},
      {"blocks of blocks, in lanes", [] { return observe(einsum("i => ", leaf("x", "1000003")).named("y")); }, R"(
kernel y
  r1:f32 := 0
  for i < 1000003 in 8 partial sums in blocks of 400, 10000, 250000:
    r0:f32 = x[i]
    r1 += r0
  y[0] = r1
)",
       R"(
kernel y
  r1:f32 := 0
  for i_lane < 8:
    r2:f32 := 0
    for i_block3 < 4:
      r3:f32 := 0
      for i_block2 < 25:
        r4:f32 := 0
        for i_block < 25:
          r5:f32 := 0
          for i < 50:
            r6:f32 = x[8*i + i_lane + 250000*i_block3 + 10000*i_block2 + 400*i_block]
            r5 += r6
          r4 += r5
        r3 += r4
      r2 += r3
    if 2 - i_lane >= 0:
      r7:f32 = x[i_lane + 1000000]
      r2 += r7
    r1 += r2
  y[0] = r1
)"},
      {"a row is a block", [] { return observe(einsum("b,h,c => c", leaf("x", "10,100,32")).named("y")); }, R"(
kernel y
  for c < 32:
    r1:f32 := 0
    for b < 10 in blocks of 1:
      for h < 100:
        r0:f32 = x[c + 3200*b + 32*h]
        r1 += r0
    y[c] = r1
)",
       R"(
kernel y
  for c < 32:
    r1:f32 := 0
    for b_block < 10:
      r2:f32 := 0
      for h < 100:
        r3:f32 = x[c + 32*h + 3200*b_block]
        r2 += r3
      r1 += r2
    y[c] = r1
)"},
      {"lanes for each row, rows in blocks", [] { return observe(einsum("i,j => ", leaf("x", "100,33")).named("y")); },
       R"(
kernel y
  r1:f32 := 0
  for i < 100 in blocks of 5:
    for j < 33 in 8 partial sums:
      r0:f32 = x[33*i + j]
      r1 += r0
  y[0] = r1
)",
       R"(
kernel y
  r1:f32 := 0
  for i_block < 20:
    r5:f32 := 0
    for i < 5:
      for j_lane < 8:
        r6:f32 := 0
        for j < 4:
          r7:f32 = x[33*i + 8*j + j_lane + 165*i_block]
          r6 += r7
        if -j_lane >= 0:
          r8:f32 = x[33*i + j_lane + 165*i_block + 32]
          r6 += r8
        r5 += r6
    r1 += r5
  y[0] = r1
)"},
  };
  for (const LoopRow& row : rows) {
    SCOPED_TRACE(row.name);
    const loop::Module before = lower::lower(ordered(row.program())), after = schedule::split_loops(before);
    loop::verify(after);
    EXPECT_EQ(loops(before), trimmed(row.before));
    EXPECT_EQ(loops(after), trimmed(row.after));
    EXPECT_EQ(loops(schedule::split_loops(after)), loops(after)) << "a second time";
  }
}

}  // namespace
}  // namespace caravan
