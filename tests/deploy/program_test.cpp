// Exported C in programs: what they read and write, several models in one, weights in a file beside.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "deploy/deploy.h"

namespace caravan::deploy {
namespace {

TEST_F(Deploy, TheProgramSaysWhereItsInputStops) {
  Context ctx({.device = "interp"});
  const Tensor x = input("x", {.output = {3}});
  const CSource file = to_c99(ctx, x, x * 2);
  EXPECT_EQ(program(file, "1 2 3\n4 5\n6").out, "2 4 6\n8 10 12\n");
  EXPECT_EQ(program(file, "").status, 0);
  for (const char* wrong : {"1 2 3 4", "1 2 x"}) {
    const Ran run = program(file, wrong);
    EXPECT_EQ(run.status, 1) << wrong;
    EXPECT_NE(run.error.find("an input has 3 numbers, and stops after "), std::string::npos) << run.error;
  }
}
TEST_F(Deploy, NumbersReadBackAsTheSameBits) {
  Context ctx({.device = "interp"});
  const std::vector<double> values = {0.1,     0.0,      1e-45, 3.4028234663852886e38, INFINITY, -INFINITY, NAN,
                                      1.0 / 3, 16777217, 1e-38};
  const Tensor x = input("x", {.output = {10}}), w = param("w", Array::vector({0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  ctx.write(x, Array(parse_shape("10"))), ctx.eval(x + w);
  ctx.write(w, Array(parse_shape("10"), values));
  const Ran run = program(to_c99(ctx, x, x + w), "0 0 0 0 0 0 0 0 0 0");
  ASSERT_EQ(run.numbers().size(), 10u) << run.error;
  for (size_t i = 0; i < 10; ++i) {
    const float given = float(run.numbers()[i]), expected = float(values[i]);
    EXPECT_TRUE(given == expected || (given != given && expected != expected)) << given << ", not " << expected;
  }

  const Tensor n = input("n", {.output = {3}, .dtype = DType::i64});
  Array wide(parse_shape("3"), DType::i64);
  const int64_t numbers[3] = {INT64_MIN, INT64_MAX, 9007199254740993};
  std::memcpy(wide.mutable_data(), numbers, sizeof numbers);
  const std::string text = to_c99(ctx, n, max(n, tensor(wide, "wide"))).source;
  EXPECT_NE(text.find(".wide = {INT64_MIN, 9223372036854775807, 9007199254740993},"), std::string::npos) << text;
  write("wide.c", text);
  EXPECT_TRUE(compiles("-c wide.c -o wide.o"));
}
TEST_F(Deploy, NamesThatMeanSomethingInC) {
  Context ctx({.device = "interp"});
  const Tensor x = input("model_run", {.output = {2}});
  Tensor y = x;
  for (const char* name : {"for",
                           "model_scratch",
                           "weights",
                           "scratch",
                           "exp",
                           "expf",
                           "stdin",
                           "main",
                           "sum",
                           "sum_2",
                           "r0",
                           "k0",
                           "model_k0_model_main",
                           "model_weights",
                           "model_trained",
                           "model_to_i32",
                           "caravan_to_i32",
                           "a.b",
                           "a_b",
                           "a*/b",
                           "ä",
                           "MODEL_INPUT_SIZE",
                           "NAN",
                           "o0",
                           "input",
                           "double"})
    y = y + exp(param(name, Array::vector({0.5, 0.25})) * x) + cast(cast(x, DType::i32), DType::f32);
  y = y.named("model_main");
  ctx.write(x, Array::vector({1, 2}));
  const std::vector<double> expected = ctx.eval(y).values();
  for (bool inside : {true, false}) {
    const Ran run =
        program(to_c99(ctx, x, y, {.about = "*/ /* ?\?/\n\\ ?\?' \"\n#error\n", .weights_inside = inside}), "1 2");
    expect_near(run.numbers(), expected, 1e-5, "names");
  }
}

TEST_F(Deploy, TwoModelsInOneProgramAndItsHeaders) {
  Context ctx({.device = "interp"});
  const Tensor x = input("x", {.output = {2}});
  ctx.write(x, Array::vector({1, 2}));
  const Tensor a = Mlp("mlp", {.widths = {5, 3}, .activation = Tanh()})(x), b = Mlp("other", {.widths = {4, 1}})(x);
  const std::vector<double> expected = {ctx.eval(a).at(0), ctx.eval(b).at(0)};
  const CSource first = to_c99(ctx, x, a, {.name = "first"}),
                second = to_c99(ctx, x, b, {.name = "second", .weights_inside = false});
  write("first.c", first.source), write("first.h", first.header), write("second.c", second.source),
      write("second.h", second.header), write("weights", second.weights);
  const std::string main =
      "#include <stdio.h>\n"
      "int main(void) {\n"
      "  const float x[FIRST_INPUT_SIZE] = {1, 2};\n"
      "  float a[FIRST_OUTPUT_SIZE], b[SECOND_OUTPUT_SIZE];\n"
      "  first_scratch one;\n"
      "  second_scratch two;\n"
      "  second_weights weights;\n"
      "  FILE* file = fopen(\"weights\", \"rb\");\n"
      "  if (!file || second_load(&weights, file) != SECOND_LOADED) return 1;\n"
      "  first_run(x, a, &one);\n"
      "  second_run(&weights, x, b, &two);\n"
      "  printf(\"%.9g %.9g\\n\", (double)a[0], (double)b[0]);\n"
      "  return fclose(file);\n"
      "}\n";
  write("linked.c", "#include \"first.h\"\n#include \"second.h\"\n#include \"first.h\"\n" + main);
  write("joined.c", "#include \"first.c\"\n#include \"second.c\"\n" + main);
  write("user.cpp", "#include \"first.h\"\n#include \"second.h\"\n" + main);
  ASSERT_TRUE(compiles("linked.c first.c second.c -o linked -lm"));
  ASSERT_TRUE(compiles("joined.c -o joined -lm"));
  ASSERT_TRUE(compiles("-c first.c second.c"));
  for (const char* program : {"linked", "joined"})
    expect_near(shell("cd '" + folder_.string() + "' && ./" + program).numbers(), expected, 1e-5, program);
  const Ran cpp = shell("cd '" + folder_.string() +
                        "' && c++ -Wall -Wextra -Werror user.cpp first.o second.o -o user -lm && ./user");
  expect_near(cpp.numbers(), expected, 1e-5, "C++\n" + cpp.error);
}

TEST_F(Deploy, WeightsThatAreNotItsOwnAreRefused) {
  Context ctx({.device = "interp"});
  const Tensor x = input("x", {.output = {2}});
  ctx.write(x, Array::vector({1, 2}));
  const Tensor y = Linear("fc", {.output = {3}})(x);
  ctx.eval(y);
  auto exported = [&](const Tensor& model) {
    ctx.eval(model);
    return to_c99(ctx, x, model, {.weights_inside = false}).weights;
  };
  const CSource file = to_c99(ctx, x, y, {.weights_inside = false});
  ASSERT_EQ(program(file, "1 2").status, 0);
  const std::string good = file.weights;
  ASSERT_EQ(good.size(), 32u + 9 * 4);
  auto changed = [&](size_t at) {
    std::string bytes = good;
    bytes[at] = char(bytes[at] ^ 1);
    return bytes;
  };
  std::string other_order = good;
  std::reverse(other_order.begin() + 8, other_order.begin() + 12);
  enum { loaded, no_weights, byte_order, other_model, cut_off, damaged };
  const struct {
    const char* what;
    std::string bytes;
    int code;
  } kFiles[] = {
      {"nothing", "", no_weights},
      {"text", "these are no weights, but a text of some length", no_weights},
      {"another magic", changed(0), no_weights},
      {"another byte order", other_order, byte_order},
      {"another version", changed(12), no_weights},
      {"other sizes", exported(Linear("fc2", {.output = {4}})(x)), other_model},
      {"other names", exported(Linear("fd", {.output = {3}})(x)), other_model},
      {"another precision", exported(Linear("fc64", {.output = {3}, .dtype = DType::f64})(cast(x, DType::f64))),
       other_model},
      {"cut off in the head", good.substr(0, 10), cut_off},
      {"cut off after the head", good.substr(0, 32), cut_off},
      {"cut off in the first array", good.substr(0, 40), cut_off},
      {"without the last byte", good.substr(0, good.size() - 1), cut_off},
      {"a bit of a weight", changed(good.size() - 2), damaged},
      {"a bit of the hash", changed(24), damaged},
      {"a byte more", good + "x", damaged},
  };
  for (const auto& [what, bytes, code] : kFiles) {
    write("weights", bytes);
    const Ran run = shell(path("model") + " " + path("weights"), "1 2");
    EXPECT_EQ(run.status, 2) << what;
    EXPECT_EQ(run.out, "") << what;
    EXPECT_NE(run.error.find("error " + std::to_string(code) + " of model_load"), std::string::npos)
        << what << ": " << run.error;
  }
  EXPECT_EQ(shell(path("model") + " " + path("no such file"), "1 2").status, 2);
  EXPECT_EQ(shell(path("model"), "1 2").status, 2);

  // Another training run of the same model is fine.
  ctx.write("fc.bias", Array::vector({1, 2, 3}));
  write("weights", exported(y));
  expect_near(shell(path("model") + " " + path("weights"), "1 2").numbers(), ctx.eval(y).values(), 1e-5,
              "other values");
}

}  // namespace
}  // namespace caravan::deploy
