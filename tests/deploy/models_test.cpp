// Models and ops exported as C99, compiled, run, and held to the library.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "caravan/ops/op.h"
#include "caravan/tensor/graph.h"
#include "deploy/deploy.h"

namespace caravan::deploy {
namespace {

struct Case {
  const char* name;
  Tensor (*input)();
  Tensor (*model)(const Tensor& x);
  double low = -1, high = 1;  // of inputs
  double tolerance =
      1e-5;  // of the interpreter, which rounds where the program says so, not where a narrow float is stored
};
Tensor vectors() { return input("x", {.batch = {2}, .output = {10}}); }
Tensor image() { return input("image", {.batch = {1}, .output = {9, 11, 4}}); }
Tensor sequence() { return input("x", {.batch = {2, 6}, .output = {8}}); }
Tensor ids() { return input("ids", {.batch = {2, 6}, .output = Extents{}, .dtype = DType::i32}); }

const Case kCases[] = {
    {"TanhMlp", vectors,
     [](const Tensor& x) {
       return Mlp("mlp", {.widths = {33, 20, 6}, .activation = Tanh()})(x);
     }},
    {"Softmax", vectors, [](const Tensor& x) { return softmax(Linear("fc", {.output = {6}})(x)); }, -3, 3},
    {"LogSoftmax", vectors, [](const Tensor& x) { return log_softmax(Linear("fc", {.output = {6}})(x)); }, -3, 3},
    {"Swiglu", vectors, [](const Tensor& x) { return Swiglu("ffn", {.hidden = 24, .output = 10})(x); }},
    {"Activations", vectors,
     [](const Tensor& x) {
       return gelu(x) + gelu_tanh(x) + silu(x) + softplus(x) + sigmoid(x) + Elu{}(x) + LeakyRelu{}(x);
     },
     -3, 3},
    {"ConvPoolDense", image,
     [](const Tensor& x) {
       return softmax(Linear("fc", {.output = {5}})(
           Flatten()(MaxPool2d{}(relu(Conv2d("conv", {.channels = 6, .kernel = 3, .padding = same})(x))))));
     }},
    {"StridePaddingDilationGroups", image,
     [](const Tensor& x) {
       return Conv2d("b", {.channels = 3, .kernel = 2, .dilation = {2, 1}})(
           Conv2d("a", {.channels = 6, .kernel = {3, 5}, .stride = {2, 1}, .padding = {1, 2}, .groups = 2})(x));
     }},
    {"TransposedConv", image,
     [](const Tensor& x) {
       return TransposedConv2d("up", {.channels = 3, .kernel = 4, .stride = 2, .padding = 1})(x);
     }},
    {"SeparableConvAndAveragePool", image,
     [](const Tensor& x) {
       return AvgPool2d{{.kernel = 3, .stride = 2, .padding = 1, .exclude_padding = true}}(
           SeparableConv2d("conv", {.channels = 6, .padding = same})(x));
     }},
    {"BatchNormInEvaluation", image,
     [](const Tensor& x) { return relu(BatchNorm2d("norm")(Conv2d("conv", {.channels = 5, .bias = false})(x))); }},
    {"GroupNormAndGlobalPools", image,
     [](const Tensor& x) {
       Tensor y = GroupNorm("norm", 2)(x);
       return GlobalAvgPool2d()(y) + GlobalMaxPool2d()(y);
     }},
    {"CausalConv",
     [] {
       return input("x", {.batch = {2}, .output = {12, 3}});
     },
     [](const Tensor& x) { return CausalConv1d("conv", {.channels = 4, .kernel = 2, .dilation = 4})(x); }},
    {"LayerNormAndAttention", sequence,
     [](const Tensor& x) {
       return SelfAttention("attn", {.dim = 8, .heads = 2, .causal = true})(LayerNorm("norm")(x));
     }},
    {"RotaryAttentionAndRmsNorm", sequence,
     [](const Tensor& x) {
       return RmsNorm("norm")(SelfAttention(
           "attn", {.dim = 8, .heads = 4, .kv_heads = 2, .rotary = RotaryOptions{}})(SinusoidalPositions{}(x)));
     }},
    {"Embedding", ids, [](const Tensor& x) { return Embedding("table", {.num = 7, .dim = 5})(x); }, 0, 7},
    {"Gpt", ids, [](const Tensor& x) { return Gpt({.vocab = 7, .ctx = 6, .dim = 16, .heads = 2, .layers = 2})(x); }, 0,
     7},
    {"GptOfLongIds",
     [] {
       return input("ids", {.batch = {1, 6}, .output = Extents{}, .dtype = DType::i64});
     },
     [](const Tensor& x) { return Gpt({.vocab = 7, .ctx = 8, .dim = 8, .heads = 1, .layers = 1, .tied = true})(x); }, 0,
     7},
    {"IdsOutOfRangeGiveNothing", ids, [](const Tensor& x) { return Embedding("table", {.num = 7, .dim = 5})(x + 0); },
     -3, 10},
    {"Gru", sequence, [](const Tensor& x) { return Gru("gru", {.hidden = 5, .context = 6})(x); }},
    {"Lstm", sequence, [](const Tensor& x) { return Lstm("lstm", {.hidden = 5, .context = 6})(x); }},
    {"Double", [] { return input("x", {.batch = {2}, .output = {10}, .dtype = DType::f64}); },
     [](const Tensor& x) {
       return Mlp("mlp", {.widths = {40, 6}, .activation = Tanh(), .dtype = DType::f64})(x);
     },
     -1, 1, 1e-13},
    {"Bytes", [] { return input("pixels", {.batch = {2}, .output = {30}, .dtype = DType::u8}); },
     [](const Tensor& x) { return Linear("fc", {.output = {4}})(cast(x, DType::f32) / 255); }, 0, 256},
    {"Half", [] { return input("x", {.output = {9}, .dtype = DType::f16}); },
     [](const Tensor& x) {
       return x * 3 + tensor(Array::vector({1, 2, 3, 4, 5, 6, 7, 8, 0.1}, DType::f16));
     },
     -1, 1, 1e-3},
    {"Bfloat", [] { return input("x", {.output = {9}, .dtype = DType::bf16}); },
     [](const Tensor& x) {
       return x * param("w", Array::vector({0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}, DType::bf16));
     },
     -1, 1, 8e-3},
    {"PrecisionOfProducts", vectors,
     [](const Tensor& x) { return Linear("fc", {.output = {4}})(x, evaluation({.precision = DType::bf16})); }, -1, 1,
     1e-2},
    {"TheClass", vectors, [](const Tensor& x) { return argmax("... | c => ... |", Linear("fc", {.output = {6}})(x)); }},
    {"ArgmaxOfIntegers", [] { return input("x", {.batch = {3}, .output = {10}, .dtype = DType::i32}); },
     [](const Tensor& x) { return argmax("... | c => ... |", x * x); }, -9, 9},
    {"Truth", vectors, [](const Tensor& x) { return x > 0; }},
    {"TruthsAsInput", [] { return input("mask", {.output = {8}, .dtype = DType::boolean}); },
     [](const Tensor& x) { return where(x, 1.5, -2.5); }, 0, 2},
    {"ANumber", vectors, [](const Tensor& x) { return mean(x * x); }},
    {"Identity", vectors, [](const Tensor& x) { return x; }},
    {"Concatenation", vectors, [](const Tensor& x) { return concat("... | a; ... | b => ... | a^b", x, tanh(x)); }},
    {"NoWeightsAndPositions", sequence, [](const Tensor& x) { return SinusoidalPositions{}(x); }},
};

// The Context's states have values that are nobody's initial ones.
Context filled(const Case& model, const std::string& device, const Tensor& x, const Tensor& y) {
  Context ctx({.seed = 7, .device = device, .compiler_flags = {"-O0"}});  // the bits are those of -O3
  std::mt19937 random(1);
  ctx.write(x, random_array(ctx.shape(x), x.dtype(), random, std::max(model.low, 0.), 1));
  ctx.eval(y);
  for (const std::string& name : ctx.names()) {
    const Array now = ctx.read(name);
    const bool variance = name.ends_with("running_var");
    if (name == x.name()) continue;
    Array noise = random_array(now.shape(), DType::f64, random, variance ? 0.5 : -0.5, 0.5 + variance);
    ctx.write(name, Array::zip(noise, now.cast(DType::f64), [](double a, double b) { return double(float(a + b)); }));
  }
  return ctx;
}

bool calls_functions(const std::string& text) {  // whose bits are the C library's
  for (const char* name :
       {"exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "tanh", "erf", "atan2", "pow"})
    for (const char* end : {"(", "f("})
      for (const char* before : {" ", "("})
        if (text.find(std::string(before) + name + end) != text.npos) return true;
  return false;
}

class Models : public Deploy, public testing::WithParamInterface<Case> {};

TEST_P(Models, GiveWhatTheLibraryGives) {
  const Case& model = GetParam();
  const Tensor x = model.input(), y = model.model(x);
  Context oracle = filled(model, "interp", x, y), cpu = filled(model, "cpu", x, y);
  const CSource file = to_c99(oracle, x, y, {.about = model.name});
  EXPECT_EQ(file.source, to_c99(cpu, x, y, {.about = model.name}).source)
      << "the device does not matter, and every run gives the same text";

  std::mt19937 random(2);
  std::vector<Array> inputs;
  std::vector<double> expected, on_cpu;
  auto add = [](std::vector<double>& to, const Array& more) {
    for (double v : more.values()) to.push_back(v);
  };
  const bool checked_ids = std::string(model.name).starts_with("IdsOutOfRange");
  for (int k = 0; k < 4; ++k) {
    inputs.push_back(random_array(oracle.shape(x), x.dtype(), random, model.low, model.high));
    oracle.write(x, inputs.back()), cpu.write(x, inputs.back());
    add(expected, oracle.eval(y)), add(on_cpu, cpu.eval(y));
  }
  EXPECT_GT(largest_of(expected), 0) << "the test sees something";
  if (checked_ids) {
    EXPECT_GT(std::count(expected.begin(), expected.end(), 0.0), 0);
  }
  const Ran run = program(file, text_of(inputs));
  ASSERT_EQ(run.status, 0) << run.error << file.source;
  expect_near(run.numbers(), expected, model.tolerance, "the interpreter");
  expect_near(run.numbers(), on_cpu, std::min(model.tolerance, 1e-5), "the compiled backend");
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 4);

  // The weights in a file of their own.
  const CSource beside = to_c99(oracle, x, y, {.weights_inside = false});
  EXPECT_EQ(beside.weights.empty(), file.source.find("model_trained") == std::string::npos);
  const Ran again = program(beside, text_of(inputs), "-ffp-contract=off");
  ASSERT_EQ(again.status, 0) << again.error << beside.source;
  expect_near(again.numbers(), on_cpu, std::min(model.tolerance, 1e-5), "weights beside");
  EXPECT_TRUE(std::string(model.name) != "StridePaddingDilationGroups" || !calls_functions(file.source))
      << "the next check sees something";
  const std::vector<double> numbers = again.numbers();
  for (size_t i = 0; i < on_cpu.size() && !calls_functions(file.source); ++i) {
    const double given = numbers[i];  // nine digits tell floats apart
    ASSERT_TRUE(y.dtype() == DType::f64 ? given == on_cpu[i] : float(given) == float(on_cpu[i]))
        << "other bits at " << i << ": " << given << ", not " << on_cpu[i];
  }

  if (!has_compiler("clang")) return;
  write("model.c", file.source);
  EXPECT_TRUE(compiles("-fsyntax-only -DMODEL_MAIN model.c", "clang"));
  EXPECT_TRUE(compiles("-fsyntax-only model.c", "clang")) << "nothing is unused";
}
INSTANTIATE_TEST_SUITE_P(All, Models, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

class Ops : public Deploy, public testing::WithParamInterface<DType> {};

// All ops of a precision in one text, each an export of its own: no warnings, and no names that clash.
TEST_P(Ops, AreC99) {
  const DType dtype = GetParam();
  Context ctx({.device = "interp"});
  std::string text, calls;
  std::vector<double> expected;
  for (const OpRow& op : op_rows()) {
    const Tensor x = input("x", {.output = {3}, .dtype = dtype});
    std::vector<Operand> operands;
    for (int k = 0; k < op.arity; ++k)
      operands.push_back(dtype != DType::boolean ? x + number(k, dtype)
                         : k == 0                ? x
                                                 : tensor(Array::vector({1, 0, k - 1.}, dtype)));
    const Tensor y = pointwise(op.op, operands);
    const std::string name = "op_" + std::string(op.name);
    ctx.write(x, Array::vector({0, 1, 2}, DType::f64).cast(dtype));
    for (double v : ctx.eval(cast(y, DType::f64)).values()) expected.push_back(v);
    text += to_c99(ctx, x, cast(y, DType::f64), {.name = name}).source + "\n";
    calls += "  { " + name + "_scratch scratch; " + name +
             "_run(x, y, &scratch); for (int i = 0; i < 3; ++i) printf(\"%.17g\\n\", y[i]); }\n";
  }
  const bool bits = dtype == DType::f16 || dtype == DType::bf16;
  const char* type = dtype == DType::f32   ? "float"
                     : dtype == DType::f64 ? "double"
                     : bits                ? "uint16_t"
                     : dtype == DType::i32 ? "int32_t"
                     : dtype == DType::i64 ? "int64_t"
                                           : "uint8_t";
  const char* values = dtype == DType::boolean ? "0, 1, 1"
                       : dtype == DType::f16   ? "0, 0x3c00, 0x4000"
                       : dtype == DType::bf16  ? "0, 0x3f80, 0x4000"
                                               : "0, 1, 2";
  text += "#include <stdio.h>\nint main(void) {\n  double y[3];\n  const " + std::string(type) + " x[3] = {" + values +
          "};\n" + calls + "  return 0;\n}\n";
  write("ops.c", text);
  for (const char* compiler : {"cc", "clang"}) {
    if (!has_compiler(compiler)) continue;
    ASSERT_TRUE(compiles("ops.c -o ops -lm", compiler));
    expect_near(shell(path("ops")).numbers(), expected, bits ? 1e-2 : dtype == DType::f64 ? 1e-14 : 1e-6, compiler);
  }
}
INSTANTIATE_TEST_SUITE_P(All, Ops,
                         testing::Values(DType::boolean, DType::u8, DType::i32, DType::i64, DType::f16, DType::bf16,
                                         DType::f32, DType::f64),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace caravan::deploy
