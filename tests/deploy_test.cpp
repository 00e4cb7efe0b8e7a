// Models exported as C99, compiled by the system's compiler without a warning, run, and held to the library.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "caravan/caravan.h"
#include "caravan/data/digits.h"
#include "caravan/data/loader.h"
#include "caravan/data/safetensors.h"
#include "caravan/deploy/c99.h"
#include "caravan/ops/op.h"
#include "caravan/tensor/graph.h"

namespace caravan::deploy {
namespace {

using namespace caravan::nn;

constexpr const char* kFlags = " -O2 -Wall -Wextra -Werror -std=c99 -pedantic ";

bool has_compiler(const std::string& name) { return std::system((name + " --version >/dev/null 2>&1").c_str()) == 0; }
std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

struct Ran {
  int status = -1;
  std::string out, error;
  std::vector<double> numbers() const {
    std::istringstream in(out);
    std::vector<double> values;
    for (std::string word; in >> word;) values.push_back(std::strtod(word.c_str(), nullptr));
    return values;
  }
};

class Deploy : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_compiler("cc")) GTEST_SKIP() << "there is no C compiler `cc` here";
    folder_ = std::filesystem::temp_directory_path() / ("caravan_deploy_" + std::to_string(std::random_device{}()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  // The arguments of the compiler are files of the folder and flags.
  bool compiles(const std::string& arguments, const std::string& compiler = "cc") const {
    const Ran run = shell("cd '" + folder_.string() + "' && " + compiler + kFlags + arguments);
    EXPECT_EQ(run.status, 0) << compiler << kFlags << arguments << "\n" << run.error;
    return run.status == 0;
  }
  Ran shell(const std::string& command, const std::string& input = "") const {
    write("stdin", input);
    const int status = std::system(
        ("{ " + command + "; } <" + path("stdin") + " >" + path("stdout") + " 2>" + path("stderr")).c_str());
    return {WEXITSTATUS(status), contents(path("stdout")), contents(path("stderr"))};
  }
  Ran program(const CSource& file, const std::string& input, const std::string& flags = "") const {
    write("model.c", file.source);
    if (!compiles(flags + " -DMODEL_MAIN model.c -o model -lm")) return {};
    if (!file.weights.empty()) write("weights", file.weights);
    return shell(path("model") + (file.weights.empty() ? "" : " " + path("weights")), input);
  }

  std::filesystem::path folder_;
};

std::string text_of(const std::vector<Array>& inputs) {
  std::ostringstream out;
  out.precision(17);
  for (const Array& input : inputs)
    for (double v : input.values()) out << v << '\n';
  return out.str();
}
Array random_array(const Shape& shape, DType dtype, std::mt19937& random, double low, double high) {
  std::vector<double> values(size_t(shape.elements()));
  for (double& v : values) v = std::uniform_real_distribution<double>(low, high)(random);
  if (!is_float(dtype))
    for (double& v : values) v = std::floor(v);
  return Array(shape, values, dtype);
}
double largest_of(const std::vector<double>& values) {
  double out = 0;
  for (double v : values)
    if (std::isfinite(v)) out = std::max(out, std::abs(v));
  return out;
}
void expect_near(const std::vector<double>& given, const std::vector<double>& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(given.size(), expected.size()) << what;
  const double scale = std::max(largest_of(expected), 1e-30);
  for (size_t i = 0; i < given.size(); ++i) {
    const bool same = given[i] == expected[i] || (std::isnan(given[i]) && std::isnan(expected[i]));
    ASSERT_TRUE(same || std::abs(given[i] - expected[i]) <= tolerance * scale)
        << what << ", element " << i << ": " << given[i] << ", not " << expected[i];
  }
}

// ---------------------------------------------------------------- models

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

// ---------------------------------------------------------------- every op

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

// ---------------------------------------------------------------- the command

#ifdef CARAVAN_COMMAND
class ExportCommand : public Deploy {
 protected:
  Ran caravan(const std::string& arguments) const {
    return shell("cd '" + folder_.string() + "' && '" CARAVAN_COMMAND "' " + arguments);
  }
  void train(const std::string& recipe, const std::string& options) const {
    const Ran ran = caravan("train " + recipe + " --quiet --seed 2 --save model.safetensors " + options);
    ASSERT_EQ(ran.status, 0) << ran.error;
  }
  // What the library computes with the weights of the checkpoint.
  std::vector<double> expected(const Tensor& x, const Array& value, const Tensor& y) const {
    Context ctx;
    ctx.write(x, value);
    ctx.eval(y);
    const data::Tensors saved = data::read_safetensors(path("model.safetensors"));
    for (const std::string& name : ctx.names())
      if (name != x.name()) ctx.write(name, saved.array(name).reshaped(ctx.read(name).shape()));
    return ctx.eval(y).values();
  }
  // A thousand test images, MNIST's where it is found, through the program `digits`.
  void check_digits(const std::function<Tensor(const Tensor&)>& model) const {
    ASSERT_TRUE(compiles("-DDIGITS_MAIN digits.c -o digits -lm"));
    std::vector<int64_t> rows(1000);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = int64_t(i);
    const Array images = data::unit_pixels(data::find_digits(data::usual_places(), 5).test.images.take(rows));
    const Tensor x = input("images", {.batch = {1000}, .output = {28, 28, 1}});
    const Ran ran = shell(path("digits"), text_of({images}));
    ASSERT_EQ(ran.status, 0) << ran.error;
    expect_near(ran.numbers(), expected(x, images, softmax(model(x))), 1e-5, "1000 images");
    double sure = 0;
    for (double p : ran.numbers()) sure = std::max(sure, p);
    EXPECT_GT(sure, 0.9) << "it has learnt something";
  }
};
TEST_F(ExportCommand, ADenseNetworkOfDigits) {
  train("mnist-mlp", "--steps 2000");
  const Ran ran = caravan("export model.safetensors --c digits.c --header digits.h");
  ASSERT_EQ(ran.status, 0) << ran.error;
  EXPECT_EQ(ran.out, "digits.c: " + std::to_string(contents(path("digits.c")).size()) +
                         " bytes\ndigits.h: " + std::to_string(contents(path("digits.h")).size()) + " bytes\n");
  EXPECT_TRUE(
      contents(path("digits.c")).starts_with("/* classifier of the recipe mnist-mlp, after 2000 steps of training"))
      << contents(path("digits.c")).substr(0, 200);
  check_digits([](const Tensor& x) {
    return Mlp("mlp", {.widths = {100, 100, 100, 10}, .activation = Tanh()})(einsum("... | h, w, c => ... | h&w&c", x));
  });
}
TEST_F(ExportCommand, AConvolutionalNetworkOfDigits) {
  train("mnist-conv", "--steps 40");
  ASSERT_EQ(caravan("export model.safetensors --c digits.c --quiet").out, "");
  check_digits([](const Tensor& x) {
    const MaxPool2d pool;
    Tensor y = pool(relu(Conv2d("conv2", {.channels = 64})(pool(relu(Conv2d("conv1", {.channels = 32})(x))))));
    return Linear("dense2", {.output = {10}})(
        relu(Linear("dense1", {.output = {128}})(einsum("... | h, w, c => ... | h&w&c", y))));
  });
}
TEST_F(ExportCommand, APartWithItsWeightsBeside) {
  train("mnist-autoencoder", "--steps 3");
  ASSERT_EQ(caravan("export model.safetensors --c c/code.c --weights c/code.bin --part encoder --name net").status, 0);
  ASSERT_TRUE(compiles("-DNET_MAIN c/code.c -o code -lm"));
  const Ran ran = shell(path("code") + " " + path("c/code.bin"), text_of({Array(parse_shape("784"))}));
  EXPECT_EQ(ran.numbers().size(), 16u) << ran.error;
}
TEST_F(ExportCommand, APartsWeightsAlone) {
  train("mnist-autoencoder", "--steps 3");
  ASSERT_EQ(caravan("export model.safetensors --part decoder --safetensors decoder.safetensors").status, 0);
  const data::Tensors saved = data::read_safetensors(path("decoder.safetensors")),
                      whole = data::read_safetensors(path("model.safetensors"));
  std::string names;
  for (const auto& [name, tensor] : saved.list) {
    names += name + " ";
    EXPECT_EQ(tensor.elements, whole.find(name)->elements);
  }
  EXPECT_EQ(names, "decoder.0.bias decoder.0.weight decoder.1.bias decoder.1.weight decoder.2.bias decoder.2.weight ");
  // It fills a decoder of one's own.
  Context ctx({.device = "interp"});
  ctx.compile(observe(Mlp("decoder", {.widths = {32, 64, 784}, .activation = Tanh()})(input("z", {.output = {16}}))));
  load_checkpoint(path("decoder.safetensors"), ctx);
}
TEST_F(ExportCommand, RefusesInOneSentenceAndWritesNothing) {
  train("linear", "--steps 1");
  write("no_model.safetensors", "");
  const struct {
    std::string arguments, phrase;
  } kWrong[] = {
      {"export model.safetensors", "`caravan export` needs --c FILE for a C file or --safetensors FILE"},
      {"export model.safetensors --safetensors w --header out.h", "--header and --weights belong to a C file"},
      {"export nothing.safetensors --c out.c", "nothing.safetensors"},
      {"export no_model.safetensors --c out.c", "no_model.safetensors"},
      {"export model.safetensors --c 2.c", "`2` cannot start the names of a C file"},
      {"export model.safetensors --c out.c --name a-b", "`a-b` cannot start the names of a C file"},
      {"export model.safetensors --c out.c --part head", "has no part `head`; there are: "},
      {"export model.safetensors --c out.c --header out.c", "`out.c` cannot be two files at once"},
      {"export model.safetensors --c model.safetensors", "`model.safetensors` cannot be two files at once"},
      {"export model.safetensors --safetensors ./model.safetensors",
       "`./model.safetensors` cannot be two files at once"},
      {"export model.safetensors --c out.c --header .", "--header `.` is a folder"},
  };
  for (const auto& [arguments, phrase] : kWrong) {
    const Ran ran = caravan(arguments);
    EXPECT_EQ(ran.status, 2) << arguments;
    EXPECT_NE(ran.error.find(phrase), std::string::npos) << arguments << ": " << ran.error;
    EXPECT_EQ(std::count(ran.error.begin(), ran.error.end(), '\n'), 1) << ran.error;
  }
  EXPECT_FALSE(std::filesystem::exists(path("out.c")));
}
#endif

// ---------------------------------------------------------------- the program and its input

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

// ---------------------------------------------------------------- from another program

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

// ---------------------------------------------------------------- weights beside

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

// ---------------------------------------------------------------- what is refused

// The page shows the file that the example prints.
// Logits of a sequence token by token, from caches that are a struct of the caller's, are those of the whole sequence.
TEST_F(Deploy, AModelThatRemembers) {
  const Gpt gpt({.vocab = 7, .ctx = 8, .dim = 8, .heads = 2, .layers = 2, .init = normal_init(0, 0.5)});
  const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 2};
  Context ctx({.seed = 1, .device = "interp"});
  const Array whole = ctx.eval(gpt(tensor(Array({.batch = {1, int64_t(ids.size())}}, ids))));
  Tensor id = input("id", {.batch = {1, 1}, .output = {}, .dtype = DType::i32});
  const Phase phase = decoding({.capacity = 8, .at = Index("at", 8)});
  Tensor logits = gpt(id, phase);
  ctx.compile(observe(logits) & phase.updates());
  for (bool inside : {true, false}) {
    const CSource file = to_c99(ctx, id, logits, phase.updates(), {.weights_inside = inside});
    EXPECT_NE(file.header.find("void model_begin(model_state* state);"), std::string::npos);
    const Ran ran = program(file, "3 1 4 1 5 2");
    expect_near(ran.numbers(), whole.values(), 1e-5, "logits");
  }
}
// A state that cannot be written where it lies is copied after the run.
TEST_F(Deploy, AWindowThatRemembers) {
  const Tensor table = param("table", {.input = {5}, .output = {5}, .init = normal_init(0, 1)});
  const Window last_two(
      [&](const Tensor& ids) {
        return einsum("... | two, v => ... | v", gather(table, ids), {{"two", 2}});
      },
      2, 4);
  Context ctx({.seed = 1, .device = "interp"});
  Tensor id = input("id", {.batch = {1, 1}, .output = {}, .dtype = DType::i32});
  const Phase phase = decoding({.capacity = 2, .at = Index("at", 2)});
  Tensor logits = last_two(id, phase);
  ctx.compile(observe(logits) & phase.updates());
  const Ran ran = program(to_c99(ctx, id, logits, phase.updates()), "3 1 0");
  const Array weights = ctx.read(table);
  std::vector<double> expected;
  for (auto [a, b] : {std::pair{4, 3}, {3, 1}, {1, 0}})
    for (int v = 0; v < 5; ++v) expected.push_back(weights.at(v * 5 + a) + weights.at(v * 5 + b));
  expect_near(ran.numbers(), expected, 1e-6, "logits");
}

// The functions of the header, as a program of one's own calls them, choose the tokens that a Generator chooses.
TEST_F(Deploy, ALanguageModelWrites) {
  const Gpt gpt({.vocab = 7, .ctx = 8, .dim = 8, .heads = 2, .layers = 1, .init = normal_init(0, 0.5)});
  Tensor id = input("id", {.batch = {1, 1}, .output = {}, .dtype = DType::i32});
  const Phase phase = decoding({.capacity = 8, .at = Index("at", 8)});
  Tensor logits = gpt(id, phase);
  Context ctx({.seed = 1, .device = "interp"}), whole({.seed = 1, .device = "interp"});
  ctx.compile(observe(logits) & phase.updates());
  whole.eval(gpt(tensor(Array({.batch = {1, 1}}, std::vector<int32_t>{2}))));
  const CText text{.pieces = {"a ", "b ",
                              "\"?"
                              "?=\\ ",
                              "\xc3\xab ", std::string("\0", 1), "\0337 ", ""},
                   .first = {2, 5},
                   .end = 6,
                   .context = 8};
  const SamplingOptions options[] = {{.seed = 4},
                                     {.temperature = 0},
                                     {.temperature = 2, .top_k = 4, .seed = 9},
                                     {.temperature = 3, .top_p = 0.7, .seed = 5}};
  Generator generate(whole, gpt, {.capacity = 8});
  std::string expected, rows;
  for (const SamplingOptions& o : options) {
    const Ids ids = generate({2, 5}, {.tokens = 30, .sampling = o});  // beyond the context
    ASSERT_EQ(ids.size(), 30u);
    for (const int32_t token : ids) expected += text.pieces[size_t(token)];
    rows += "{" + std::to_string(o.temperature) + ", " + std::to_string(o.top_p) + ", " + std::to_string(o.top_k) +
            ", " + std::to_string(o.seed) + "}, ";
  }
  for (bool inside : {true, false}) {
    const CSource file = to_c99(ctx, id, logits, phase.updates(), {.weights_inside = inside, .text = text});
    write("model.c", file.source), write("model.h", file.header), write("weights", file.weights);
    const std::string weights = inside ? "" : "&weights, ";
    write("main.c", "#include \"model.h\"\n#include <stdio.h>\nint main(void) {\n" +
                        std::string(inside ? ""
                                           : "  static model_weights weights;\n"
                                             "  if (model_load(&weights, fopen(\"" +
                                                 path("weights") + "\", \"rb\")) != MODEL_LOADED) return 3;\n") +
                        "  const model_sampling all[] = {" + rows +
                        "};\n  static model_text text;\n  for (int i = 0; i < 4; ++i) {\n    model_start(" + weights +
                        "&text);\n    for (uint64_t n = 0; n < 30; ++n) {\n"
                        "      const int32_t token = model_choose(text.logits, &all[i], n);\n"
                        "      fwrite(model_pieces[token].text, 1, (size_t)model_pieces[token].bytes, stdout);\n"
                        "      model_add(" +
                        weights + "&text, token);\n    }\n  }\n  return 0;\n}\n");
    ASSERT_TRUE(compiles("main.c model.c -o own -lm"));
    EXPECT_EQ(shell(path("own")).out, expected);
    ASSERT_TRUE(compiles("-DMODEL_MAIN model.c -o model -lm"));
    const std::string run = path("model") + (inside ? "" : " " + path("weights"));
    EXPECT_EQ(shell(run + " 3 1").out, shell(run + " 3").out) << "one text where it is not said";
    EXPECT_EQ(shell(run + " 1 2 3 4 5").status, 2);
  }
}

TEST(DeployPage, ShowsTheExample) {
  const std::string page = contents("docs/export.md"), text = contents("examples/export.expected");
  ASSERT_GT(text.size(), 1000u);
  EXPECT_NE(page.find("```c\n" + text + "```\n"), std::string::npos);
}

template <class Error>
void expect_refused(const std::function<void()>& f, const std::vector<std::string>& phrases) {
  try {
    f();
    FAIL() << "not refused: " << phrases[0];
  } catch (const Error& e) {
    for (const std::string& phrase : phrases)
      EXPECT_NE(std::string(e.what()).find(phrase), std::string::npos) << e.what();
  }
}
TEST(DeployRefuses, WhatIsNoFunctionOfTheInput) {
  Context ctx({.device = "interp"});
  const Tensor x = input("x", {.output = {2}}), w = param("w", {3, 4}), unset = state("unset", {.output = {2}});
  const Index step("step");
  ctx.write(x, Array::vector({1, 2})), ctx.eval(x * w);
  auto refused = [&](const Tensor& in, const Tensor& out, const std::vector<std::string>& phrases) {
    expect_refused<UserError>([&] { to_c99(ctx, in, out); }, phrases);
  };
  refused(x, (w * 2).named("y"), {"`y` does not depend on `x`"});
  refused(x * 2, x * 3, {"is computed", "deploy_test.cpp"});
  refused(x, (x * unset).named("y"), {"`y` reads the state `unset`, which has no value in the Context"});
  refused(x, (x * step).named("y"), {"`y` depends on the index `step`"});
  refused(x, Dropout("drop", 0.5)(x, training({.step = sum(w)})).named("y"),
          {"`y` draws the random numbers `drop`", "without a training phase"});
}
TEST(DeployRefuses, TextByWhatIsNoLanguageModel) {
  Context ctx({.device = "interp"});
  const Tensor id = input("id", {.batch = {1}, .output = {}, .dtype = DType::i32}), x = input("x", {.output = {2}});
  const Tensor table = param("table", {.input = {3}, .output = {3}});
  ctx.write(id, Array({.batch = {1}}, std::vector<int32_t>{0})), ctx.write(x, Array::vector({1, 2}));
  const Tensor logits = gather(table, id).named("y");
  ctx.eval(logits);
  auto refused = [&](const Tensor& in, const Tensor& out, const CText& text, const std::string& phrase) {
    expect_refused<ConfigError>([&] { to_c99(ctx, in, out, {.text = text}); }, {"`y` cannot write text: " + phrase});
  };
  refused(id, logits, {.pieces = {"a"}, .first = {0}}, "it has 3 logits, but the vocabulary has 1 tokens.");
  refused(id, logits, {.pieces = {"a", "b", "c"}}, "it needs a token to begin with.");
  refused(x, (x * 2).named("y"), {.pieces = {"a", "b"}, .first = {0}}, "its input must be one id, an i32.");
}
TEST(DeployRefuses, NamesThatAreNoIdentifiers) {
  Context ctx({.device = "interp"});
  const Tensor x = input("x", {.output = {2}});
  ctx.write(x, Array::vector({1, 2}));
  for (const char* name : {"", "2x", "a-b", "_a", "a b", "ä"})
    expect_refused<ConfigError>([&] { to_c99(ctx, x, x, {.name = name}); },
                                {"`" + std::string(name) + "` cannot start the names of a C file"});
}

}  // namespace
}  // namespace caravan::deploy
