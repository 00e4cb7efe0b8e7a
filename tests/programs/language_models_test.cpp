// Language models of random sizes: what is compiled gives what the interpreter gives, in values, gradients and text.
// And what caches are for: the time of a token.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>

#include "caravan/autodiff/grad.h"
#include "caravan/generate/generator.h"
#include "caravan/nn/nn.h"
#include "caravan/tensor/functions.h"

namespace caravan {
namespace {

// Three models of the kinds that compile quickly, one of the others; of each so many with CARAVAN_TEST_MODELS=20.
const char* const kMore = std::getenv("CARAVAN_TEST_MODELS");
constexpr int64_t kBatch = 6, kTokens = 8;

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int64_t from(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  bool coin() { return from(0, 1) == 1; }

 private:
  std::mt19937 engine_;
};

struct Model {
  int64_t vocab = 0, context = 0;
  std::function<Tensor(const Tensor& ids, const nn::Phase& phase)> logits{};
  bool window = true;  // it sees `... | context` and gives `... | vocab`; otherwise `..., t |` and `..., t | vocab`
};

Model bigram(Random& random) {
  const int64_t vocab = random.from(3, 12);
  const nn::Embedding table("table", {.num = vocab, .dim = vocab});
  return {vocab, 1, [=](const Tensor& ids, const nn::Phase&) { return einsum("... | _, v => ... | v", table(ids)); }};
}

Model mlp_of(Random& random, bool norm) {
  const int64_t vocab = random.from(3, 12);
  const nn::Embedding letters("letters", {.num = vocab, .dim = random.from(1, 6)});
  const nn::Linear hidden("hidden", {.output = {random.from(2, 20)}, .bias = !norm}), next("next", {.output = {vocab}});
  const nn::BatchNorm normal("norm");
  return {vocab, random.from(2, 5), [=](const Tensor& ids, const nn::Phase& phase) {
            const Tensor x = hidden(letters(ids), phase);
            return next(tanh(norm ? normal(x, phase) : x), phase);
          }};
}
Model mlp(Random& random) { return mlp_of(random, false); }
Model mlp_bn(Random& random) { return mlp_of(random, true); }

Model wavenet(Random& random) {
  const int64_t vocab = random.from(3, 12), levels = random.from(1, 3);
  const nn::Embedding letters("letters", {.num = vocab, .dim = random.from(1, 5)});
  const nn::Linear next("next", {.output = {vocab}});
  std::vector<nn::Linear> fuse;
  std::vector<nn::BatchNorm> norms;
  for (int64_t level = 0; level < levels; ++level) {
    const std::string name = "level" + std::to_string(level);
    fuse.emplace_back(name, nn::LinearOptions{.output = {random.from(2, 8)}, .bias = false});
    norms.emplace_back(name + ".norm");
  }
  return {vocab, int64_t(1) << levels, [=](const Tensor& ids, const nn::Phase& phase) {
            Tensor x = letters(einsum("... | t => ..., t |", ids));
            for (size_t i = 0; i < fuse.size(); ++i)
              x = tanh(norms[i](fuse[i](nn::FlattenConsecutive{2, i + 1 == fuse.size()}(x), phase), phase));
            return next(x, phase);
          }};
}

Model gpt(Random& random) {
  const int64_t heads = random.from(1, 3);
  const nn::GptOptions options{.vocab = random.from(3, 12),
                               .ctx = random.from(8, 12),
                               .dim = heads * random.from(2, 6),
                               .heads = heads,
                               .layers = random.from(1, 2),
                               .tied = random.coin(),
                               .attention_bias = random.coin(),
                               .init = normal_init(0, 0.4)};
  return {options.vocab, options.ctx, nn::Gpt(options), false};
}

Model llama(Random& random) {
  const int64_t groups = random.from(1, 2), kv_heads = random.from(1, 2), heads = groups * kv_heads;
  const nn::LlamaOptions options{.vocab = random.from(3, 12),
                                 .ctx = random.from(8, 12),
                                 .dim = heads * 2 * random.from(1, 3),
                                 .heads = heads,
                                 .layers = random.from(1, 2),
                                 .kv_heads = kv_heads,
                                 .hidden = random.from(3, 12),
                                 .tied = random.coin(),
                                 .init = normal_init(0, 0.4)};
  return {options.vocab, options.ctx, nn::Llama(options), false};
}

Array random_ids(Random& random, const Shape& shape, int64_t vocab) {
  std::vector<int32_t> ids(size_t(shape.elements()));
  for (int32_t& id : ids) id = int32_t(random.from(0, vocab - 1));
  return Array(shape, ids);
}

// The largest difference, as a part of the largest value; at least 1e-3, below which gradients are rounding errors.
double difference(const Array& given, const Array& expected) {
  double most = 0, scale = 1e-3;
  for (int64_t i = 0; i < expected.size(); ++i) {
    most = std::max(most, std::abs(given.at(i) - expected.at(i)));
    scale = std::max(scale, std::abs(expected.at(i)));
  }
  return std::isfinite(most) ? most / scale : most;
}

struct Ran {
  std::vector<Array> values;  // of the loss, the logits, all gradients and all states
  Ids text;
};
Ran ran(const Model& model, const char* device, Random random) {
  const Shape rows{.batch = {kBatch}}, times{.batch = {kBatch, model.context}};
  const Array ids =
      random_ids(random, model.window ? Shape{.batch = {kBatch}, .output = {model.context}} : times, model.vocab);
  const Array targets = random_ids(random, model.window ? rows : times, model.vocab);
  const nn::Phase phase = nn::training();
  const Tensor logits = model.logits(ids, phase), loss = nn::cross_entropy(logits, targets);
  std::vector<Tensor> seen = {loss, logits};
  for (const Tensor& g : grad(loss, parameters(loss))) seen.push_back(g);
  Context ctx({.seed = 7, .device = device, .threads = 1, .compiler_flags = {"-O0"}});  // the bits are those of -O3
  Routine step = ctx.compile(observe(seen) & phase.updates());
  step.run();
  Ran out;
  for (const Tensor& t : seen) out.values.push_back(step.read(t));
  for (const std::string& name : ctx.names()) out.values.push_back(ctx.read(name));

  const GenerateOptions greedy{.tokens = kTokens, .sampling = {.temperature = 0}};
  auto now = [&](const Tensor& window) { return model.logits(window, {}); };
  Generator generate = model.window ? Generator(ctx, Window(now, model.context))
                                    : Generator(ctx, model.logits, {.capacity = model.context});
  out.text = generate({1, 2}, greedy);
  return out;
}

struct Kind {
  const char* name;
  Model (*make)(Random& random);
  int models;
};
class LanguageModels : public testing::TestWithParam<Kind> {};

TEST_P(LanguageModels, CompiledAndInterpretedAgree) {
  for (int number = 1; number <= (kMore ? std::atoi(kMore) : GetParam().models); ++number) {
    SCOPED_TRACE("model " + std::to_string(number));
    Random random((unsigned(number)));
    const Model model = GetParam().make(random);
    const Ran compiled = ran(model, "cpu", random), interpreted = ran(model, "interp", random);
    ASSERT_EQ(compiled.values.size(), interpreted.values.size());
    for (size_t i = 0; i < compiled.values.size(); ++i)
      EXPECT_LT(difference(compiled.values[i], interpreted.values[i]), 1e-4) << "value " << i;
    EXPECT_EQ(compiled.text, interpreted.text);
    EXPECT_EQ(compiled.text.size(), size_t(kTokens));
  }
}
INSTANTIATE_TEST_SUITE_P(Random, LanguageModels,
                         testing::Values(Kind{"bigram", bigram, 3}, Kind{"mlp", mlp, 3}, Kind{"mlp_bn", mlp_bn, 3},
                                         Kind{"wavenet", wavenet, 3}, Kind{"gpt", gpt, 1}, Kind{"llama", llama, 1}),
                         [](const auto& kind) { return kind.param.name; });

// Without caches a token costs 256 tokens; the true ratio is far above the five that are asked for.
TEST(Caches, MakeATokenOfALongTextFiveTimesFaster) {
  constexpr int64_t kLong = 256, kGiven = 200;
  const nn::Gpt model({.vocab = 20, .ctx = kLong, .dim = 32, .heads = 2, .layers = 2, .init = normal_init(0, 0.3)});
  Context ctx({.seed = 3, .device = "cpu", .threads = 1});
  ctx.compile(observe(model(tensor(Array({.batch = {1, 1}}, std::vector<int32_t>{1})))));
  Ids prompt;
  for (int32_t i = 0; i < kGiven; ++i) prompt.push_back(i * i % 19);
  double seconds[2];
  Ids tokens[2];
  for (const bool cache : {false, true}) {
    Generator generate(ctx, model, {.capacity = kLong, .cache = cache});
    generate(prompt, {.tokens = 2});  // compiles
    const auto begun = std::chrono::steady_clock::now();
    tokens[cache] = generate(prompt, {.tokens = kLong - kGiven, .sampling = {.temperature = 0}});
    seconds[cache] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  }
  EXPECT_EQ(tokens[0], tokens[1]);
  EXPECT_GT(seconds[0] / seconds[1], 5) << seconds[0] << " s without, " << seconds[1] << " s with caches";
  RecordProperty("ratio", int(seconds[0] / seconds[1]));
}

}  // namespace
}  // namespace caravan
