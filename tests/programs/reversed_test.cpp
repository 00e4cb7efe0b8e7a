// Sums that read memory backwards, or in another order than it lies, with short loops inside: GCC 8 to 13.1 get such
// sums wrong at -O3 (schedule/keep_loops.h), so they are written for compilers with that fault, and held here to plain
// loops. Random ones are in random_program_test.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "caravan/backend/cc/device.h"
#include "caravan/backend/interp/device.h"
#include "caravan/deploy/c99.h"
#include "programs.h"

namespace caravan {
namespace {

// 1, 2, 3, ..: their sums are exact in every precision here, in whatever order.
Array counted(int64_t rows, int64_t width, DType dtype) {
  Array out(parse_shape(std::to_string(rows) + "," + std::to_string(width)), dtype);
  for (int64_t e = 0; e < out.size(); ++e) out.set(e, double(e + 1));
  return out;
}

TEST(Reversed, TheSumOfFourRowsReadBackwards) {
  Context ctx({.device = "cpu"});
  EXPECT_EQ(ctx.eval(sum(einsum("h, -w => h, w", tensor(counted(4, 4, DType::f32))))).item(), 136);
}

TEST(Reversed, ElementsThatAConditionSelectsKeepTheirOrder) {  // codegen/uses.h
  Context ctx({.device = "cpu"});
  for (int64_t width = 2; width <= 8; ++width) {
    const Array all = counted(16, width, DType::f32);
    Array mask = all;
    for (int64_t e = 0; e < mask.size(); ++e) mask.set(e, double((e * 37) % 11 - 5));
    const Array y = ctx.eval(where(tensor(mask) > 0, einsum("h, -w => h, w", tensor(all)), 0));
    for (int64_t h = 0; h < 16; ++h)
      for (int64_t w = 0; w < width; ++w)
        EXPECT_EQ(y.at(h * width + w), mask.at(h * width + w) > 0 ? all.at(h * width + width - 1 - w) : 0) << width;
  }
}

const std::vector<int64_t> kRows = {3, 4, 5, 6, 8, 9, 16, 17, 33};  // 252 sums in all,

class ReversedSums : public testing::TestWithParam<DType> {};

TEST_P(ReversedSums, OfAllShortWidthsAreRight) {
  Program program;
  std::vector<double> expected;
  std::vector<std::string> what;
  for (int64_t width = 2; width <= 15; ++width)
    for (int64_t rows : GetParam() == DType::f32 ? kRows : std::vector<int64_t>{4, 17}) {
      const Tensor x = einsum("h, -w => h, w", tensor(counted(rows, width, GetParam())));
      const double n = double(rows * width);
      const std::string size = std::to_string(rows) + " rows of " + std::to_string(width);
      program &= observe(sum(x)) & observe(sum(square(x - 1)));
      expected.push_back(n * (n + 1) / 2), what.push_back("the sum of " + size);
      expected.push_back((n - 1) * n * (2 * n - 1) / 6), what.push_back("the squares of " + size);
    }
  const Outcome outcome = run_on(*cc::make_device({}), task_of(program));
  for (size_t k = 0; k < expected.size(); ++k)
    EXPECT_NEAR(outcome.observed[k].item(), expected[k], GetParam() == DType::f32 ? 1e-5 * expected[k] : 0) << what[k];
}
INSTANTIATE_TEST_SUITE_P(Precisions, ReversedSums, testing::Values(DType::f32, DType::f64, DType::i32),
                         [](const auto& info) { return std::string(name(info.param)); });

struct OrderCase {
  const char* name;
  Tensor (*sums)(const Tensor& x, const Tensor& w);  // of 8, 4, 6 and 4
};
const OrderCase kOrders[] = {
    {"backwards", [](const Tensor& x, const Tensor&) { return sum(einsum("a, -b, -c => a, b, c", x)); }},
    {"backwards in the middle", [](const Tensor& x, const Tensor&) { return sum(einsum("a, -b, c => a, b, c", x)); }},
    {"transposed", [](const Tensor& x, const Tensor&) { return sum(einsum("a, b, c => a, c, b", x)); }},
    {"through a function", [](const Tensor& x, const Tensor&) { return mean(tanh(einsum("a, b, -c => a, b, c", x))); }},
    {"with another operand forwards", [](const Tensor& x, const Tensor& w) { return einsum("a, -b, c; b => ", x, w); }},
    {"with another operand backwards",
     [](const Tensor& x, const Tensor& w) { return einsum("a, -b, c; -b => ", x, w); }},
    {"into what is written where two iterators meet",
     [](const Tensor& x, const Tensor& w) {
       return grad(sum(einsum("j, -n, m; i+k => j", x, w, {{"k", 3}})), w);
     }},
    {"the gradient of a window",
     [](const Tensor& x, const Tensor& w) {
       return grad(sum(square(einsum("a, o+k, c; k => o", einsum("a, b, -c => a, c, b", x), einsum("i^2 => i", w)))),
                   w);
     }},
};

TEST(Reversed, OrdersOfMemoryAreThoseOfTheInterpreter) {
  Array x(parse_shape("8,4,6"), DType::f64), w(parse_shape("4"), DType::f64);
  for (int64_t e = 0; e < x.size(); ++e) x.set(e, std::sin(double(e)));
  for (int64_t e = 0; e < w.size(); ++e) w.set(e, std::cos(double(e)));
  Program program;
  for (const OrderCase& c : kOrders) program &= observe(c.sums(tensor(x), param("w " + std::string(c.name), w)));
  const Task task = task_of(program);
  const Outcome compiled = run_on(*cc::make_device({}), task), expected = run_on(*interp::make_device(0), task);
  for (size_t k = 0; k < expected.observed.size(); ++k)
    for (int64_t e = 0; e < expected.observed[k].size(); ++e)
      EXPECT_NEAR(compiled.observed[k].at(e), expected.observed[k].at(e), 1e-13)
          << kOrders[k].name << ", element " << e;
}

struct ExportCase {
  const char* name;
  Tensor (*input)();
  Tensor (*sum)(const Tensor& x);
};
Tensor rows() { return input("x", {.output = {8, 4}}); }
Tensor pixels() { return input("x", {.output = {8, 4, 3}}); }
const ExportCase kExports[] = {
    {"a reversed row", rows, [](const Tensor& x) { return einsum("h, -w => ", x); }},
    {"all reversed", rows, [](const Tensor& x) { return einsum("-h, -w => ", x); }},
    {"colours the other way round", pixels, [](const Tensor& x) { return einsum("h, w, -c => ", x); }},
    {"a reversed middle", pixels, [](const Tensor& x) { return einsum("h, -w, c => ", x); }},
    {"a reversed copy", rows, [](const Tensor& x) { return sum(einsum("h, -w => h, w", x)); }},
    {"a reversed copy through a function", rows, [](const Tensor& x) { return sum(abs(einsum("h, -w => h, w", x))); }},
};

// Compilers without the fault compute the right sum either way: so the text is looked at too.
TEST(Reversed, LoopsThatCompilersMustNotUnrollAreMarked) {
  const Tensor x = pixels(), weights = tensor({1, 2, 3, 4});
  Context ctx({.device = "interp"});
  auto marked = [&](const Tensor& y) {
    return deploy::to_c99(ctx, x, y, {.name = "model"}).source.find("  model_keep_loop()") != std::string::npos;
  };
  EXPECT_TRUE(marked(einsum("h, -w, c; w => ", x, weights)));
  EXPECT_FALSE(marked(einsum("h, w, c; w => ", x, weights)));
}

// As docs/export.md says: cc -O3, called from a program. (Its own main is compiled for size: it runs once.)
TEST(Reversed, ExportedSumsAreRight) {
  const TemporaryFolder folder;
  for (const ExportCase& c : kExports) {
    const Tensor x = c.input();
    Context ctx({.device = "interp"});
    const deploy::CSource file = deploy::to_c99(ctx, x, c.sum(x), {.name = "model"});
    std::ofstream(folder.path + "/model.c") << file.source;
    std::ofstream(folder.path + "/model.h") << file.header;
    std::ofstream(folder.path + "/main.c") << R"C(#include "model.h"
int main(void) {
  static model_scratch scratch;
  float input[MODEL_INPUT_SIZE], output;
  for (int i = 0; i < MODEL_INPUT_SIZE; ++i) input[i] = (float)(i + 1);
  model_run(input, &output, &scratch);
  return output == MODEL_INPUT_SIZE * (MODEL_INPUT_SIZE + 1) / 2 ? 0 : 3;
}
)C";
    for (const char* flags : {"", "-march=native"}) {
      const std::string command = "cd '" + folder.path + "' && cc -O3 -std=c99 -Wall -Wextra -Werror -pedantic " +
                                  flags + " model.c main.c -o main -lm && ./main";
      EXPECT_EQ(std::system(command.c_str()), 0) << c.name << ": " << command;
    }
  }
}

}  // namespace
}  // namespace caravan
