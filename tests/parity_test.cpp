// Parity with PyTorch: its own runs (those beside the tests, and where CARAVAN_FIXTURES names a folder), random models
// of the same vocabulary against the interpreter everywhere, and what is refused.
#include "caravan/parity/parity.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <random>

#include "caravan/base/error.h"
#include "programs.h"
#include "random_fixture.h"
#include "sanitized.h"

namespace caravan::parity {
namespace {

using std::string;

const string& cache() {
  static const TemporaryFolder folder;
  return folder.path;
}
ContextOptions on(const string& device, int threads = 1, std::vector<string> flags = {}) {
  ContextOptions out;
  out.device = device, out.cache = cache(), out.threads = threads, out.compiler_flags = std::move(flags);
  return out;
}

string failures(const Report& report) {
  string out;
  for (const Difference& d : report.differences)
    if (!d.passed()) out += fmt::format("  {}: {:.2e} apart, {:.0e} allowed\n", d.name, d.relative, d.limit);
  return out;
}

// --- PyTorch's own runs ---

std::vector<string> fixture_files() {
  std::vector<string> folders = {"tests/fixtures"}, out;
  if (const char* folder = std::getenv("CARAVAN_FIXTURES")) folders.push_back(folder);
  for (const string& folder : folders)
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".safetensors") out.push_back(entry.path());
  return out;
}

TEST(Parity, FixturesOfPyTorch) {
  const std::vector<string> files = fixture_files();
  ASSERT_GE(files.size(), 10u);
  for (const string& file : files) {
    const Fixture fixture = fixture_from(data::read_safetensors(file));
    for (int threads : {1, 2}) {
      const Report report = compare(train(fixture, on("cpu", threads)), fixture.results);
      EXPECT_TRUE(report.passed()) << file << " with " << threads << " threads\n" << failures(report);
    }
    const Report report = compare(train(fixture, on("interp")), fixture.results);
    EXPECT_TRUE(report.passed()) << file << " interpreted\n" << failures(report);
    EXPECT_LE(report.differences[0].relative, 1e-5) << file << ": the losses in double";
  }
}

// --- random models ---

// The interpreter in double is the oracle. Most are compiled quickly, every sixteenth as users compile them.
// CARAVAN_PARITY_MODELS says how many (`./dev accept programs` takes a thousand), CARAVAN_PARITY_FIRST the first seed.
TEST(Parity, RandomModelsAgreeWithTheInterpreter) {
  auto given = [](const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text ? uint32_t(std::atoi(text)) : uint32_t(otherwise);
  };
  const uint32_t models = given("CARAVAN_PARITY_MODELS", kSanitized ? 16 : 24), from = given("CARAVAN_PARITY_FIRST", 1);
  for (uint32_t seed = from; seed < from + models; ++seed) {
    const RandomFixture random(seed);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, random.model));
    const Fixture fixture = fixture_from(random.tensors);
    const Arrays expected = train(fixture, on("interp"));
    const std::vector<string> flags = seed % 16 ? std::vector<string>{"-O0"} : std::vector<string>{};
    const Arrays actual = train(fixture, on("cpu", 1 + int(seed % 2), flags));
    const Report report = compare(actual, expected);
    EXPECT_TRUE(report.passed()) << random.tensors.metadata.at("optimizer") << ", "
                                 << random.tensors.metadata.at("loss") << '\n'
                                 << failures(report);
  }
}

TEST(Parity, ACompletedFixtureIsReadBackAndAgrees) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    const RandomFixture random(seed);
    const Arrays results = train(fixture_from(random.tensors), on("interp"));
    const string content = data::safetensors_content(completed(random.tensors, results));
    const Fixture fixture = fixture_from(data::parse_safetensors(content, "memory"));
    const Report report = compare(train(fixture, on("interp")), fixture.results);
    EXPECT_TRUE(report.passed()) << random.model << '\n' << failures(report);
    EXPECT_LT(report.worst(), 0.01);
  }
}

// --- layouts, against loops that read PyTorch's arrays as PyTorch lays them out ---

data::Tensors described(const string& model, const string& loss,
                        const string& optimizer = R"({"name": "sgd", "lr": 0.1})") {
  data::Tensors out;
  out.metadata = {{"fixture", "1"}, {"name", "by hand"},      {"model", model},
                  {"loss", loss},   {"optimizer", optimizer}, {"steps", "1"}};
  return out;
}
Array numbers(const Sizes& sizes, uint32_t seed, DType dtype = DType::f32, int64_t below = 0) {
  Shape shape;
  for (int64_t size : sizes) shape.output.push_back({size});
  Array out(shape, dtype);
  std::mt19937 random(seed);
  for (int64_t i = 0; i < out.size(); ++i)
    out.set(i, below ? double(random() % uint32_t(below)) : double(random() % 2001) / 1000 - 1);
  return out;
}

TEST(Layout, ConvolutionPoolFlattenLinear) {
  // in 4, out 6, groups 2, kernel 3x2, stride 2x1, padding 1x2, dilation 1x2 on 7x6: 4x8; pool 2x3: 2x2; 24 to 3
  data::Tensors tensors = described(R"({"type": "sequential", "layers": [
      {"type": "conv2d", "in": 4, "out": 6, "kernel": [3, 2], "stride": [2, 1], "padding": [1, 2], "dilation": [1, 2], "groups": 2},
      {"type": "max_pool2d", "kernel": [2, 3]}, {"type": "flatten"}, {"type": "linear", "in": 24, "out": 3}]})",
                                    "mse", R"({"name": "sgd", "lr": 0})");
  const Array x = numbers({1, 2, 4, 7, 6}, 1), w = numbers({6, 2, 3, 2}, 2), b = numbers({6}, 3),
              v = numbers({3, 24}, 4), c = numbers({3}, 5);
  auto add = [&](const string& name, const Array& array) { tensors.list[name] = data::stored(array); };
  add("x", x), add("y", numbers({1, 2, 3}, 6));
  add("param.0.weight", w), add("param.0.bias", b), add("param.3.weight", v), add("param.3.bias", c);
  const Array actual = train(fixture_from(tensors), on("interp")).at("eval_output");

  for (int64_t n = 0; n < 2; ++n) {
    std::vector<double> flat;
    for (int64_t o = 0; o < 6; ++o)
      for (int64_t ph = 0; ph < 2; ++ph)
        for (int64_t pw = 0; pw < 2; ++pw) {
          double best = -INFINITY;
          for (int64_t oh = 2 * ph; oh < 2 * ph + 2; ++oh)
            for (int64_t ow = 3 * pw; ow < 3 * pw + 3; ++ow) {
              double sum = b.at(o);
              for (int64_t i = 0; i < 2; ++i)
                for (int64_t kh = 0; kh < 3; ++kh)
                  for (int64_t kw = 0; kw < 2; ++kw) {
                    const int64_t h = 2 * oh - 1 + kh, z = ow - 2 + 2 * kw;
                    if (h >= 0 && h < 7 && z >= 0 && z < 6)
                      sum += w.at({o, i, kh, kw}) * x.at({0, n, o / 3 * 2 + i, h, z});
                  }
              best = std::max(best, sum);
            }
          flat.push_back(best);
        }
    for (int64_t o = 0; o < 3; ++o) {
      double sum = c.at(o);
      for (int64_t i = 0; i < 24; ++i) sum += v.at({o, i}) * flat[size_t(i)];
      EXPECT_NEAR(actual.at({n, o}), sum, 1e-9);
    }
  }
}

TEST(Layout, EmbeddingFlattenConsecutiveLinear) {
  data::Tensors tensors = described(R"({"type": "sequential", "layers": [{"type": "embedding", "num": 5, "dim": 3},
      {"type": "flatten_consecutive", "n": 2}, {"type": "linear", "in": 6, "out": 2, "bias": false}]})",
                                    "cross_entropy", R"({"name": "sgd", "lr": 0})");
  const Array x = numbers({1, 3, 4}, 1, DType::i64, 5), table = numbers({5, 3}, 2), w = numbers({2, 6}, 3);
  auto add = [&](const string& name, const Array& array) { tensors.list[name] = data::stored(array); };
  add("x", x), add("y", numbers({1, 3, 2}, 4, DType::i64, 2)), add("param.0.weight", table), add("param.2.weight", w);
  const Arrays results = train(fixture_from(tensors), on("interp"));
  double loss = 0;
  for (int64_t n = 0; n < 3; ++n)
    for (int64_t t = 0; t < 2; ++t) {
      double out[2] = {};
      for (int64_t o = 0; o < 2; ++o) {
        for (int64_t i = 0; i < 6; ++i)
          out[o] += w.at({o, i}) * table.at({int64_t(x.at({0, n, 2 * t + i / 3})), i % 3});
        EXPECT_NEAR(results.at("eval_output").at({n, t, o}), out[o], 1e-9);
      }
      const int64_t y = int64_t(tensors.array("y").at({0, n, t}));
      loss += std::log(std::exp(out[0]) + std::exp(out[1])) - out[y];
    }
  EXPECT_NEAR(results.at("losses").at(0), loss / 6, 1e-9);
}

TEST(Layout, HingeIsDividedByTheBatchAlone) {
  data::Tensors tensors =
      described(R"({"type": "sequential", "layers": [{"type": "linear", "in": 1, "out": 1, "bias": false}]})", "hinge");
  auto add = [&](const string& name, const Array& array) { tensors.list[name] = data::stored(array); };
  Shape two;
  two.output = {{1}, {2}, {3}, {1}};
  add("x", Array(two, {1, 2, 3, -1, 0, 4})), add("y", Array(two, {1, -1, 1, 1, 1, -1}));
  two.output = {{1}, {1}};
  add("param.0.weight", Array(two, {0.5}));
  const Arrays results = train(fixture_from(tensors), on("interp"));
  EXPECT_NEAR(results.at("losses").at(0), (0.5 + 2 + 0 + 1.5 + 1 + 3) / 2, 1e-12);
  EXPECT_NEAR(results.at("grad.0.weight").at(0), (-1 + 2 + 0 + 1 + 0 + 4) / 2.0, 1e-12);
}

// --- differences ---

TEST(Difference, IsRelativeToTheLargestElementAndAbsoluteBelowAMillionth) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct {
    const char* name;
    std::vector<double> ours, theirs;
    double absolute, relative;
    bool passed;
  } rows[] = {
      {"losses", {1, 2}, {1, 2}, 0, 0, true},
      {"losses", {1, 200.01}, {1, 200}, 0.01, 5e-5, true},
      {"losses", {1.01, 200}, {1, 200}, 0.01, 5e-5, true},
      {"losses", {1, 200.03}, {1, 200}, 0.03, 1.5e-4, false},
      {"grad.w", {9e-7}, {0}, 9e-7, 9e-7, true},
      {"grad.w", {2e-4}, {9e-7}, 2e-4 - 9e-7, 2e-4 - 9e-7, false},
      {"grad.w", {2e-6}, {-1e-6}, 3e-6, 3, false},
      {"final.w", {1.0015}, {1}, 0.0015, 0.0015, true},
      {"final_buffer.m", {1.0025}, {1}, 0.0025, 0.0025, false},
      {"eval_output", {1.0015}, {1}, 0.0015, 0.0015, true},
      {"eval_output", {nan}, {1}, nan, nan, false},
      {"eval_output", {1}, {nan}, nan, nan, false},
  };
  for (const auto& r : rows) {
    const Difference d = difference(r.name, Array::vector(r.ours, DType::f64), Array::vector(r.theirs, DType::f64));
    EXPECT_EQ(d.passed(), r.passed) << r.name;
    auto same = [](double a, double b) { return std::isnan(b) ? std::isnan(a) : std::abs(a - b) < 1e-9; };
    EXPECT_TRUE(same(d.absolute, r.absolute)) << d.absolute << " is not " << r.absolute;
    EXPECT_TRUE(same(d.relative, r.relative)) << d.relative << " is not " << r.relative;
  }
}

TEST(Difference, TheStepWhereLossesPartIsTheFirstBeyondTheLimit) {
  auto report = [](std::vector<double> ours, std::vector<double> theirs) {
    return compare({{"losses", Array::vector(ours, DType::f64)}}, {{"losses", Array::vector(theirs, DType::f64)}});
  };
  EXPECT_EQ(report({3, 2, 1}, {3, 2, 1}).losses_part_at, std::nullopt);
  EXPECT_EQ(report({3, 2.1, 1.1}, {3, 2, 1}).losses_part_at, 1);
  EXPECT_EQ(report({3, 2, NAN}, {3, 2, 1}).losses_part_at, 2);
  EXPECT_FALSE(report({3, 2, NAN}, {3, 2, 1}).passed());
  EXPECT_THROW(report({3, 2}, {3, 2, 1}), ConfigError);
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(report({1, 1, 2}, {1, 1, nan}).losses_part_at, 2);
  EXPECT_EQ(report({1, 3, inf}, {1, 1, inf}).losses_part_at, 1);
  EXPECT_TRUE(std::isnan(
      compare({{"losses", Array::vector({1})}, {"grad.a", Array::vector({nan})}, {"grad.b", Array::vector({1})}},
              {{"losses", Array::vector({1})}, {"grad.a", Array::vector({1})}, {"grad.b", Array::vector({1})}})
          .worst()));
  EXPECT_THROW(
      compare({{"losses", Array::vector({1})}, {"grad.w", Array::vector({1})}}, {{"losses", Array::vector({1})}}),
      ConfigError);
  EXPECT_THROW(
      compare({{"losses", Array::vector({1})}}, {{"losses", Array::vector({1})}, {"grad.w", Array::vector({1})}}),
      ConfigError);
}

// --- refusals ---

template <class Work>
string refusal(const Work& work) {
  try {
    work();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was refused";
}
void expect_sentence(const string& said, const string& phrase) {
  EXPECT_NE(said.find(phrase), string::npos) << "expected \"" << phrase << "\", got: " << said;
  EXPECT_EQ(said.find('\n'), string::npos) << said;
  EXPECT_TRUE(said.ends_with(".")) << said;
}

TEST(Description, WordsThatAreNotOfTheVocabulary) {
  auto layers = [](const string& list) { return R"({"type": "sequential", "layers": [)" + list + "]}"; };
  struct {
    string model, phrase;
  } rows[] = {
      {"", "the model is not valid JSON at byte"},
      {"[]", "the model: it must be an object"},
      {"{}", "the model: `type` is missing"},
      {R"({"type": 3})", "`type` must be a text"},
      {R"({"type": "resnet"})", "there is no type `resnet`; there are sequential, gpt"},
      {R"({"type": "sequential"})", "`layers` must be a list of at least one layer"},
      {R"({"type": "sequential", "layers": [], "type": "gpt"})", "has the name `type` twice"},
      {R"({"type": "sequential", "layers": [{"type": "relu"}], "lr": 1})",
       "there is no option `lr`; there are type, layers"},
      {layers(""), "`layers` must be a list of at least one layer"},
      {layers("3"), "layer 0 of the model: it must be an object"},
      {layers(R"({"type": "relu"}, {"type": "dropout"})"),
       "layer 1 of the model: there is no layer `dropout`; there are linear, conv2d"},
      {layers(R"({"type": "linear", "in": 3})"), "layer 0 of the model, `linear`: `out` is missing"},
      {layers(R"({"type": "linear", "in": 3, "out": 2, "activation": "relu"})"),
       "there is no option `activation`; there are type, in, out, bias"},
      {layers(R"({"type": "linear", "in": 0, "out": 2})"), "`in` must be a whole number from 1 to 16777216, not `0`"},
      {layers(R"({"type": "linear", "in": 2.0, "out": 2})"), "`in` must be a whole number"},
      {layers(R"({"type": "linear", "in": 18446744073709551615, "out": 2})"), "`in` must be a whole number"},
      {layers(R"({"type": "linear", "in": 2, "out": 2, "bias": 1})"), "`bias` must be true or false, not `1`"},
      {layers(R"({"type": "conv2d", "in": 4, "out": 6, "kernel": [1, 2, 3]})"), "`kernel` must be a number or a pair"},
      {layers(R"({"type": "conv2d", "in": 4, "out": 6, "kernel": 3, "groups": 4})"),
       "`groups` 4 must divide `in` 4 and `out` 6"},
      {layers(R"({"type": "conv2d", "in": 4, "out": 6, "kernel": 3, "padding": -1})"),
       "`padding` must be a whole number from 0"},
      {layers(R"({"type": "conv2d", "in": 4, "out": 6, "kernel": 3, "padding": "same"})"),
       "`padding` must be a whole number from 0"},
      {layers(R"({"type": "max_pool2d", "kernel": 3, "padding": 2})"), "`padding` 2 is more than half of `kernel` 3"},
      {layers(R"({"type": "max_pool2d", "kernel": 3, "ceil_mode": true})"), "there is no option `ceil_mode`"},
      {layers(R"({"type": "residual", "layers": [{"type": "tanh"}, {"type": "tahn"}]})"),
       "layer 0.1 of the model: there is no layer `tahn`"},
      {R"({"type": "gpt", "vocab": 9, "ctx": 4, "dim": 6, "heads": 4, "layers": 1})", "`heads` 4 must divide `dim` 6"},
      {R"({"type": "gpt", "vocab": 9, "ctx": 4, "dim": 6, "layers": 1})", "`heads` is missing"},
  };
  for (const auto& [model, phrase] : rows)
    expect_sentence(refusal([&, &model = model] { parse_model(model); }), phrase);
  string deep = R"({"type": "relu"})";
  for (int i = 0; i < 100; ++i) deep = R"({"type": "residual", "layers": [)" + deep + "]}";
  expect_sentence(refusal([&] { parse_model(layers(deep)); }), "nested deeper than 64 levels");

  expect_sentence(refusal([] { parse_loss("mae"); }), "there is no loss `mae`; there are mse, hinge, cross_entropy");
  expect_sentence(refusal([] { parse_optimizer(R"({"name": "lion"})"); }),
                  "there is no optimizer `lion`; there are sgd, adam, adamw");
  expect_sentence(refusal([] { parse_optimizer(R"({"name": "sgd", "betas": [0.9, 0.99]})"); }),
                  "there is no option `betas`");
  expect_sentence(refusal([] { parse_optimizer(R"({"name": "adam", "betas": [0.9, 1]})"); }),
                  "`betas` must be a number from 0");
  expect_sentence(refusal([] { parse_optimizer(R"({"name": "sgd", "nesterov": true})"); }),
                  "`nesterov` needs a `momentum`");
  expect_sentence(refusal([] { parse_optimizer(R"({"name": "sgd", "lr": -1})"); }), "`lr` must be a number from 0");
}

TEST(Fixture, WhatDoesNotFitIsRefused) {
  auto good = [] {
    data::Tensors out =
        described(R"({"type": "sequential", "layers": [{"type": "linear", "in": 3, "out": 2}]})", "cross_entropy");
    out.list["x"] = data::stored(numbers({1, 4, 3}, 1));
    out.list["y"] = data::stored(numbers({1, 4}, 2, DType::i64, 2));
    out.list["param.0.weight"] = data::stored(numbers({2, 3}, 3));
    out.list["param.0.bias"] = data::stored(numbers({2}, 4));
    return out;
  };
  auto run = [&](const std::function<void(data::Tensors&)>& damage) {
    data::Tensors tensors = good();
    const Arrays results = train(fixture_from(tensors), on("interp"));
    tensors = completed(tensors, results);
    damage(tensors);
    return refusal([&] {
      const Fixture fixture = fixture_from(tensors);
      compare(train(fixture, on("interp")), fixture.results);
    });
  };
  using T = data::Tensors&;
  EXPECT_EQ(run([](T) {}), "nothing was refused");
  struct {
    std::function<void(data::Tensors&)> damage;
    string phrase;
  } rows[] = {
      {[](T t) { t.metadata.clear(); }, "it is not a parity fixture: its metadata has no `fixture`"},
      {[](T t) { t.metadata["fixture"] = "2"; }, "a fixture of version `2`"},
      {[](T t) { t.metadata.erase("loss"); }, "its metadata has no `loss`"},
      {[](T t) { t.metadata["steps"] = "0"; }, "`steps` is `0`"},
      {[](T t) { t.metadata["steps"] = "1 "; }, "`steps` is `1 `"},
      {[](T t) { t.metadata["steps"] = "2"; }, "its first axis must be the 2 steps"},
      {[](T t) { t.list.erase("x"); }, "there is no tensor `x`"},
      {[](T t) { t.list["x"].type = data::StoredType::u32; }, "`x` is U32, which Caravan does not compute with"},
      {[](T t) {
         t.list["y"] = data::stored(numbers({1, 3}, 2, DType::i64, 2));
       },
       "`x` has batches of 4 and `y` of 3"},
      {[](T t) {
         t.list["y"] = data::stored(numbers({1, 4, 2}, 2, DType::i64, 2));
       },
       "`y` has [2] for each example"},
      {[](T t) {
         t.list["y"] = data::stored(numbers({1, 4}, 2));
       },
       "`y` holds f32"},
      {[](T t) {
         t.list["y"] = data::stored(numbers({1, 4}, 3, DType::i64, 9));
       },
       "ids are from 0 to 1"},
      {[](T t) { t.list["more"] = t.list["x"]; }, "a fixture has no tensor `more`"},
      {[](T t) { t.list["param.1.weight"] = t.list["x"]; }, "the model has no `param.1.weight`"},
      {[](T t) { t.list["buffer.0.running_mean"] = t.list["x"]; }, "the model has no `buffer.0.running_mean`"},
      {[](T t) { t.list.erase("param.0.bias"); }, "it has no tensor `param.0.bias`, which the model needs"},
      {[](T t) {
         t.list["param.0.weight"] = data::stored(numbers({3, 2}, 3));
       },
       "has the shape [3, 2], but the model needs [2, 3]"},
      {[](T t) { t.list.erase("grad.0.bias"); }, "it has no tensor `grad.0.bias`"},
      {[](T t) { t.list.erase("losses"); }, "it has no tensor `losses`"},
      {[](T t) { t.list["final.0.bias"] = data::stored(numbers({3}, 3)); },
       "`final.0.bias` has the shape [3], but the model gives [2]"},
      {[](T t) {
         t.metadata["model"] = R"({"type": "sequential", "layers": [{"type": "linear", "in": 4, "out": 2}]})";
       },
       "layer 0 of the model takes 4 features but gets [batch, 3]"},
      {[](T t) {
         t.metadata["model"] =
             R"({"type": "sequential", "layers": [{"type": "conv2d", "in": 4, "out": 2, "kernel": 1}]})";
       },
       "layer 0 of the model takes images of 4 channels but gets [batch, 3]"},
      {[](T t) {
         t.metadata["model"] =
             R"({"type": "sequential", "layers": [{"type": "residual", "layers": [{"type": "linear", "in": 3, "out": 2}]}]})";
       },
       "layer 0 of the model adds [batch, 2]"},
      {[](T t) {
         t.metadata["model"] =
             R"({"type": "sequential", "layers": [{"type": "relu"}, {"type": "embedding", "num": 3, "dim": 2}]})";
       },
       "layer 1 of the model is an embedding"},
      {[](T t) { t.metadata["model"] = R"({"type": "gpt", "vocab": 9, "ctx": 2, "dim": 6, "heads": 2, "layers": 1})"; },
       "sequences of at most 2 ids, but `x` has [3]"},
  };
  for (const auto& [damage, phrase] : rows) expect_sentence(run(damage), phrase);
}

}  // namespace
}  // namespace caravan::parity
