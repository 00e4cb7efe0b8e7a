// Random programs over every precision and over C++ numbers: the interpreter, the processor with and without passes,
// and exported C follow the same rules of precision (caravan/ops/dtype.h) to the bit. Programs are joined, so that one
// compilation covers many; a failure prints the seed of its program.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>

#include "caravan/backend/cc/device.h"
#include "caravan/backend/interp/device.h"
#include "caravan/deploy/c99.h"
#include "caravan/jit/parse.h"
#include "caravan/ops/table.h"
#include "caravan/tensor/graph.h"
#include "checked_device.h"
#include "compiled_device.h"
#include "programs.h"

namespace caravan {
namespace {

constexpr int kTogether = 20;  // in one compilation

// Seeds 1 to 60, and as many of each other kind; more with CARAVAN_TEST_PROGRAMS=5000.
const char* const kMore = std::getenv("CARAVAN_TEST_PROGRAMS");
const int kPrograms = kMore ? std::atoi(kMore) : 60;

constexpr DType kAll[] = {DType::boolean, DType::u8,   DType::i32, DType::i64,
                          DType::f16,     DType::bf16, DType::f32, DType::f64};

// Numbers as C++ has them: integers, doubles that are whole and doubles that are not.
struct Number {
  double value;
  bool integral;
};
constexpr Number kNumbers[] = {
    {0, true},         {1, true},    {2, true},      {3, true},          {7, true},        {100, true},  {255, true},
    {-1, true},        {-2, true},   {1000, true},   {2147483647, true}, {0, false},       {1, false},   {2, false},
    {-1, false},       {128, false}, {255, false},   {300, false},       {-5, false},      {1e6, false}, {3e9, false},
    {16777217, false}, {0.5, false}, {-0.25, false}, {0.1, false},       {1.0 / 3, false}, {1e10, false}};

// The sign of a zero is not part of the rules: a sum starts from 0, so that -0 may become 0 (a copy of one element is a
// sum of one), and GCC makes (double)(int)x a truncation, which keeps the sign of -0. So it is not compared, and
// nothing is divided by 0.
bool divides(Op op) { return op == Op::div || op == Op::recip || op == Op::rsqrt; }

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int pick(int n) { return int(random_() % uint32_t(n)); }
  bool one_in(int n) { return pick(n) == 0; }
  template <class T, size_t N>
  const T& of(const T (&list)[N]) {
    return list[pick(int(N))];
  }
  DType dtype() { return of(kAll); }

  // The ends of the precision, where arithmetic wraps and conversions round, and what lies between.
  Array values(const Shape& shape, DType dtype) {
    Array out(shape, dtype);
    for (int64_t e = 0; e < out.size(); ++e) {
      if (is_float(dtype)) {
        const double special[] = {0.0, -0.0, 1.0, 0.1, -3.0, 1e10, 65504, -255.5, 16777217, 0.5};
        out.set(e, std::max(-largest(dtype),
                            std::min(largest(dtype), one_in(3) ? of(special) : double(pick(4001) - 2000) / 8)));
        continue;
      }
      const int64_t low = lowest_integer(dtype), high = highest_integer(dtype);
      const int64_t special[] = {low, high, 0, 1, high / 2, high - 1, low + 1, high / 2 + 1};
      const int64_t any = one_in(2) ? int64_t(uint64_t(random_()) << 32 | random_()) : int64_t(pick(21)) - 10;
      store_integer(dtype, out.mutable_data(), e,
                    one_in(3)                 ? of(special)
                    : dtype == DType::boolean ? int64_t(pick(2))
                                              : wrapped(dtype, any));
    }
    return out;
  }

 private:
  std::mt19937 random_;
};

// Tensors of the shapes "", "4" and "3,4".
class Generator {
 public:
  explicit Generator(uint32_t seed) : draw_(seed) {}

  std::vector<Tensor> run(const Tensor& given = {}) {
    if (given.defined()) pool_.push_back({given, 1});
    for (int k = 0; k < 5; ++k) leaf();
    const size_t nodes = size_t(10 + draw_.pick(14));
    while (pool_.size() < nodes) {
      try {
        node();
      } catch (const DTypeError&) {  // a number that the precision it meets cannot hold is refused
      }
    }
    std::vector<Tensor> out;
    for (size_t k = 5; k < pool_.size(); ++k)
      if (pool_[k].rank == 1 || draw_.one_in(2)) out.push_back(pool_[k].tensor);
    return out;
  }
  std::vector<Tensor> vectors() const {
    std::vector<Tensor> out;
    for (const Value& v : pool_)
      if (v.rank == 1) out.push_back(v.tensor);
    return out;
  }

 private:
  struct Value {
    Tensor tensor;
    int rank;
  };
  const Value& any() { return pool_[size_t(draw_.pick(int(pool_.size())))]; }
  const Tensor& of_rank(int rank) {
    for (;;)
      if (const Value& v = any(); v.rank == rank) return v.tensor;
  }
  void add(const Tensor& t, int rank) { pool_.push_back({t, rank}); }

  void leaf() {
    static const char* const shapes[] = {"", "4", "3,4"};
    const size_t n = pool_.size();
    const int rank = n < 3 ? int(n) : draw_.pick(3);  // one of each rank
    if (rank == 1 && draw_.one_in(6)) return add(iota(4), 1);
    const Array values = draw_.values(parse_shape(shapes[rank]), draw_.dtype());
    add(draw_.one_in(3) ? state("s" + std::to_string(n),
                                {.batch = Extents{}, .input = Extents{}, .init = from(values), .dtype = values.dtype()})
                        : tensor(values),
        rank);
  }
  Operand number() {
    const Number& n = draw_.of(kNumbers);
    return n.integral ? Operand(int64_t(n.value)) : Operand(n.value);
  }

  void node() {
    switch (draw_.pick(10)) {
      case 0: return leaf();
      case 1: {
        const Value v = any();
        return add(cast(v.tensor, draw_.dtype()), v.rank);
      }
      case 2: return reduction();
      case 3: return contraction();
      default: return op();
    }
  }

  void op() {
    for (;;) {
      const OpRow& row = op_rows()[size_t(draw_.pick(kOpCount))];
      if (!is_arithmetic(row.op)) continue;
      const Value v = any();
      std::vector<Operand> operands;
      for (int k = 0; k < row.arity; ++k) operands.push_back(draw_.one_in(3) ? number() : Operand(of_rank(v.rank)));
      operands[size_t(draw_.pick(row.arity))] = v.tensor;
      if (divides(row.op)) operands.back() = where(operands.back() == 0, 1, abs(operands.back()));
      return add(pointwise(row.op, operands), v.rank);
    }
  }

  void reduction() {
    const Tensor x = of_rank(2), v = of_rank(1);
    switch (draw_.pick(15)) {
      case 0: return add(einsum("i, j => j", x), 1);
      case 1: return add(einprod("i, j => j", x), 1);
      case 2: return add(einmax("i, j => j", x), 1);
      case 3: return add(einmin("i, j => j", x), 1);
      case 4: return add(einany("i, j => j", x), 1);
      case 5: return add(einall("i, j => j", x), 1);
      case 6: return add(argmax("i, j => j", x), 1);
      case 7: return add(argmin("i, j => j", x), 1);
      case 8: return add(mean("i, j => j", x), 1);
      case 9: return add(sum(v), 0);
      case 10: return add(product(v), 0);
      case 11: return add(largest(v), 0);
      case 12: return add(smallest(x), 0);
      case 13: return add(mean(x), 0);
      default: return add(einmax("i, j => j", x, {"i >= j + 1"}), 1);  // of nothing where j is 2 or 3
    }
  }

  void contraction() {
    const Tensor x = of_rank(2), y = of_rank(2), v = of_rank(1), w = of_rank(1);
    switch (draw_.pick(9)) {
      case 0: return add(dot(v, w), 0);
      case 1: return add(einsum("i, j; i, j => j", x, y), 1);
      case 2: return add(einsum("i, j; j; j => i, j", x, v, w), 2);
      case 3: return add(outer_sum("i, j; j => j", x, v), 1);
      case 4: return add(einsum("j; j; j =>", v, w, of_rank(1)), 0);
      case 5: return add(tropical("i, j; j => j", x, v), 1);
      case 6: return add(einmax("i, j; j => j", x, v), 1);
      case 7: return add(mul("j; => j", v, number()), 1);
      default: return add(sub("i, j; j => j", x, v), 1);
    }
  }

  Draw draw_;
  std::vector<Value> pool_;
};

const std::string& cache() {
  static const TemporaryFolder folder;
  return folder.path;
}
Outcome run_compiled(const std::vector<std::string>& passes_off, const char* optimisation, const Task& task) {
  cc::DeviceOptions options;
  options.compiler.cache = cache();
  options.compiler.flags.push_back(optimisation);
  return run_on(*compiled_device(options), task, 1, {passes_off});
}

// To the bit, but for the signs of zeros and NaN.
bool is_same(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.size() != b.size()) return false;
  for (int64_t i = 0; i < a.size(); ++i) {
    const char *x = static_cast<const char*>(a.data()) + i * bytes(a.dtype()),
               *y = static_cast<const char*>(b.data()) + i * bytes(a.dtype());
    if (std::memcmp(x, y, size_t(bytes(a.dtype()))) != 0 && !(a.at(i) == 0 && b.at(i) == 0) &&
        !(std::isnan(a.at(i)) && std::isnan(b.at(i))))
      return false;
  }
  return true;
}

struct Group {
  std::vector<Task> tasks;
  std::vector<uint32_t> seeds;  // by observed value
};
void expect_same(const Group& g, const Outcome& actual, const Outcome& expected, const std::string& what) {
  ASSERT_EQ(actual.observed.size(), expected.observed.size());
  const Task all = joined(g.tasks);
  for (size_t k = 0, t = 0, first = 0; k < g.seeds.size(); ++k) {
    while (k - first >= g.tasks[t].program.observed.size()) first += g.tasks[t++].program.observed.size();
    EXPECT_TRUE(is_same(actual.observed[k], expected.observed[k]))
        << "seed " << g.seeds[k] << ", " << what << ", observed " << k << " ("
        << all.program.buffers[size_t(all.program.observed[k])].name << "):\n"
        << actual.observed[k] << "\n"
        << expected.observed[k] << "\n"
        << to_string(g.tasks[t].program);
  }
}

// In f64 the interpreter computes as the processor does; in the precisions as written, passes must not change a bit.
void expect_one_meaning(const Group& g) {
  const Task written = joined(g.tasks);
  std::vector<Task> wide;
  for (const Task& task : g.tasks) wide.push_back(in_f64(task));
  expect_same(g, run_compiled({}, "-O1", joined(wide)), run_on(*interp::make_device(0), written),
              "in f64, against the interpreter");
  const Outcome fused = run_compiled({}, "-O1", written);
  expect_same(g, run_compiled(plan::pass_names(), "-O0", written), fused, "without passes");
}

class RandomIntegers : public testing::TestWithParam<int> {};

TEST_P(RandomIntegers, AreTheSameOnEveryEngine) {
  Group g;
  for (uint32_t seed = uint32_t(GetParam()); seed < uint32_t(GetParam() + kTogether); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    g.tasks.push_back(task_of(observe(Generator(seed).run())));
    g.seeds.insert(g.seeds.end(), g.tasks.back().program.observed.size(), seed);
  }
  expect_one_meaning(g);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomIntegers, testing::Range(1, 1 + kPrograms, kTogether));

// f32 has more than twice the digits of f16 and bf16, so that one operation in f32, rounded to them, is that in double,
// rounded once.
TEST(RandomNarrowFloats, AreRoundedAsArraysRoundThem) {
  Draw draw(1);
  for (DType dtype : {DType::f16, DType::bf16}) {
    const Array a = draw.values(parse_shape("500"), dtype), b = draw.values(parse_shape("500"), dtype);
    const Tensor x = tensor(a), y = tensor(b);
    Array sums(a.shape(), dtype), differences(a.shape(), dtype), products(a.shape(), dtype);
    for (int64_t e = 0; e < a.size(); ++e) {
      sums.set(e, a.at(e) + b.at(e));
      differences.set(e, a.at(e) - b.at(e));
      products.set(e, a.at(e) * b.at(e));
    }
    const Outcome outcome = run_compiled({}, "-O1", task_of(observe({x + y, x - y, x * y})));
    EXPECT_TRUE(is_same(outcome.observed[0], sums)) << name(dtype);
    EXPECT_TRUE(is_same(outcome.observed[1], differences)) << name(dtype);
    EXPECT_TRUE(is_same(outcome.observed[2], products)) << name(dtype);
  }
}

// The language of jit: bodies of several ops, totals of any precision.
std::string random_body(Draw& draw, int depth) {
  if (depth == 0 || draw.one_in(5)) {
    if (!draw.one_in(3)) return std::string(1, "abc"[draw.pick(3)]) + "[i, k]";
    const Number& n = draw.of(kNumbers);
    char text[40];
    std::snprintf(text, sizeof text,
                  n.integral                       ? "(%.0f)"
                  : n.value == std::trunc(n.value) ? "(%.1f)"
                                                   : "(%.17g)",
                  n.value);
    return text;
  }
  if (draw.one_in(6)) return std::string(name(draw.dtype())) + "(" + random_body(draw, depth - 1) + ")";
  for (;;) {
    const OpRow& row = op_rows()[size_t(draw.pick(kOpCount))];
    if (!is_arithmetic(row.op)) continue;
    std::string text = std::string(row.name) + "(";
    for (int k = 0; k < row.arity; ++k) {
      const std::string operand = random_body(draw, depth - 1);
      text +=
          (k ? ", " : "") +
          (divides(row.op) && k == row.arity - 1 ? "where(" + operand + " == 0, 1, abs(" + operand + "))" : operand);
    }
    return text + ")";
  }
}

class RandomJitLines : public testing::TestWithParam<int> {};

TEST_P(RandomJitLines, AreTheSameOnEveryEngine) {
  Group g;
  for (uint32_t seed = uint32_t(GetParam()); seed < uint32_t(GetParam() + kTogether); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(seed + 1000000);
    const char* const accumulators[] = {"+=", "*=", "max=", "min=", "||=", "&&="};
    jit::Buffers buffers;
    std::string text;
    for (const char* line : {"x", "y", "z"}) {
      std::string body = random_body(draw, 3);
      if (line[0] != 'x' && draw.one_in(2))
        body = std::string(draw.one_in(2) ? "x[i] + " : "x[i] * ") + body;  // a chain
      text += std::string(line) + "[i] " + draw.of(accumulators) + " " + body + "   for i < 3, k < " +
              (draw.one_in(2) ? "1" : "4") + "\n";
      buffers.dtypes[line] = draw.dtype();
    }
    for (const char* operand : {"a", "b", "c"})
      if (text.find(std::string(operand) + "[i, k]") != text.npos)
        buffers.dtypes[operand] = draw.dtype(), buffers.sizes[operand] = {3, 4};
    Task task{jit::parse_program(text, buffers), {}, {}};
    for (const ir::Buffer& b : task.program.buffers)
      if (std::holds_alternative<ir::StateLeaf>(b.kind)) task.states[b.name] = draw.values(b.shape, b.dtype);
    for (const auto& a : task.program.assignments) task.program.observed.push_back(a.value);
    task.program.assignments.clear();
    g.seeds.insert(g.seeds.end(), task.program.observed.size(), seed);
    g.tasks.push_back(std::move(task));
  }
  expect_one_meaning(g);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomJitLines, testing::Range(1, 1 + kPrograms, kTogether));

// Exported C, one file for the vectors of a program in twenty.
class RandomExports : public testing::TestWithParam<int> {};

TEST_P(RandomExports, HaveTheBitsOfTheProcessor) {
  const uint32_t seed = uint32_t(GetParam());
  const Tensor x = input("x", {.batch = Extents{}, .input = Extents{}, .output = {4}, .dtype = DType::i32});
  Generator generator(seed);
  generator.run(x);
  std::vector<Tensor> parts = {cast(x, DType::f64)};
  for (const Tensor& t : generator.vectors()) parts.push_back(cast(t, DType::f64));
  const Tensor y = stack(parts, RowKind::output);

  Context ctx({.device = "cpu", .cache = cache()});
  Array given = Draw(seed).values(parse_shape("4"), DType::i32);
  ctx.write(x, given);
  const Array expected = ctx.eval(y);
  const std::string file = cache() + "/export" + std::to_string(seed);
  std::ofstream(file + ".c") << deploy::to_c99(ctx, x, y).source;
  ASSERT_EQ(
      std::system(
          ("cc -O1 -std=c99 -w -fwrapv -ffp-contract=off -shared -fPIC -o " + file + ".so " + file + ".c -lm").c_str()),
      0)
      << file;
  void* library = dlopen((file + ".so").c_str(), RTLD_NOW);
  ASSERT_TRUE(library) << dlerror();
  auto run = reinterpret_cast<void (*)(const int32_t*, double*, void*)>(dlsym(library, "model_run"));
  ASSERT_TRUE(run);
  Array actual(expected.shape(), DType::f64);
  std::vector<double> scratch(1 << 16);
  run(static_cast<const int32_t*>(given.data()), static_cast<double*>(actual.mutable_data()), scratch.data());
  EXPECT_TRUE(is_same(actual, expected)) << "seed " << seed << ":\n"
                                         << actual << "\n"
                                         << expected << "\n"
                                         << ctx.compile(observe(y)).to_string();
  dlclose(library);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomExports, testing::Range(1, 1 + kPrograms, kTogether));

}  // namespace
}  // namespace caravan
