// Long sums of floats: how exact they are, and that their bits depend on nothing but the sum.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "caravan/caravan.h"
#include "caravan/deploy/c99.h"
#include "caravan/jit/jit.h"
#include "caravan/jit/parse.h"
#include "caravan/optimize/split_sums.h"
#include "caravan/plan/plan.h"
#include "programs.h"

namespace caravan {
namespace {

using ir::SumOrder;

Tensor filled(const std::string& name, const std::string& shape, double value) {
  const Shape s = parse_shape(shape);
  return param(name, Array(s, std::vector<double>(size_t(s.elements()), value)));
}
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

// ---------------------------------------------------------------- the largest and the smallest

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

}  // namespace
}  // namespace caravan
