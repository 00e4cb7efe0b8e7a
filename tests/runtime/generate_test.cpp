// Tokens from models: with caches and without, one at a time and in batches, alike.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "caravan/generate/generator.h"
#include "caravan/nn/nn.h"
#include "caravan/tensor/functions.h"
#include "refusal.h"
#include "this_device.h"

namespace caravan {
namespace {

constexpr int64_t kVocab = 11, kContext = 32;

nn::Gpt small_gpt() {
  return nn::Gpt({.vocab = kVocab, .ctx = kContext, .dim = 16, .heads = 2, .layers = 2, .init = normal_init(0, 0.4)});
}
// A Context that has the weights of a model.
template <class Model>
Context trained(const Model& model, std::string device = kHere.device) {
  ContextOptions options = here(5);
  options.device = std::move(device), options.threads = 1;
  Context ctx(options);
  ctx.compile(observe(model(tensor(Array({.batch = {1, 4}}, std::vector<int32_t>{1, 2, 3, 4})), nn::Phase())));
  return ctx;
}
GenerateOptions greedy(int64_t tokens) { return {.tokens = tokens, .sampling = {.temperature = 0}}; }

TEST(Generate, CachesGiveTheTokensThatWholeSequencesGive) {
  const nn::Gpt gpt = small_gpt();
  Context ctx = trained(gpt);
  Generator with(ctx, gpt, {.capacity = kContext}), without(ctx, gpt, {.capacity = kContext, .cache = false});
  const Ids prompt = {3, 1, 4, 1, 5};
  const Ids tokens = with(prompt, greedy(kContext - 5));
  EXPECT_EQ(tokens.size(), size_t(kContext - 5));
  EXPECT_EQ(tokens, without(prompt, greedy(kContext - 5)));
}

TEST(Generate, EachTokenIsTheLikeliestAfterThoseBefore) {
  const nn::Gpt gpt = small_gpt();
  Context ctx = trained(gpt);
  Ids all = {7, 2};
  const Ids tokens = Generator(ctx, gpt, {.capacity = kContext})(all, greedy(6));
  for (int32_t id : tokens) {
    const Array logits = ctx.eval(gpt(tensor(Array({.batch = {1, int64_t(all.size())}}, all))));
    const int64_t last = logits.size() - kVocab;
    int32_t best = 0;
    for (int32_t v = 0; v < kVocab; ++v)
      if (logits.at(last + v) > logits.at(last + best)) best = v;
    EXPECT_EQ(id, best) << "after " << all.size() << " tokens";
    all.push_back(id);
  }
}

TEST(Generate, PromptsOfUnequalLengthsInOneBatchDoNotKnowOfEachOther) {
  const nn::Gpt gpt = small_gpt();
  Context ctx = trained(gpt);
  Generator generate(ctx, gpt, {.capacity = kContext});
  const std::vector<Ids> prompts = {{3, 1, 4, 1, 5, 9}, {2}, {6, 5, 3}};
  const std::vector<Ids> together = generate.batch(prompts, greedy(12));
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(together[i], generate(prompts[i], greedy(12))) << i;
}

TEST(Generate, ASequenceThatFillsTheContextGoesOnWithItsLastHalf) {
  const nn::Gpt gpt = small_gpt();
  Context ctx = trained(gpt);
  Generator with(ctx, gpt, {.capacity = 8}), without(ctx, gpt, {.capacity = 8, .cache = false});
  const Ids tokens = with({1, 2, 3}, greedy(30));
  EXPECT_EQ(tokens.size(), 30u);
  EXPECT_EQ(tokens, without({1, 2, 3}, greedy(30)));
}

TEST(Generate, RotaryAndGroupedHeadsDecodeAlike) {
  struct Model {
    nn::Embedding tok{"tok", {kVocab, 16, normal_init(0, 1)}};
    nn::EncoderBlock block{"block",
                           {.dim = 16, .heads = 4, .kv_heads = 2, .causal = true, .rotary = nn::RotaryOptions{}}};
    nn::Linear head{"head", {.output = {kVocab}}};
    Tensor operator()(Operand ids, const nn::Phase& phase) const { return head(block(tok(ids), phase), phase); }
  } model;
  Context ctx = trained(model);
  Generator with(ctx, model, {.capacity = 16}), without(ctx, model, {.capacity = 16, .cache = false});
  const std::vector<Ids> prompts = {{1, 2, 3}, {4, 5, 6, 7, 8}};
  EXPECT_EQ(with.batch(prompts, greedy(9)), without.batch(prompts, greedy(9)));
  EXPECT_EQ(with(prompts[0], greedy(9)), with.batch(prompts, greedy(9))[0]);
}

TEST(Generate, AWindowIsAState) {
  const Tensor table = param("table", {.input = {kVocab}, .output = {kVocab}, .init = normal_init(0, 1)});
  const Window last_two(
      [&](const Tensor& ids) {
        return einsum("... | two, v => ... | v", gather(table, ids), {{"two", 2}});
      },
      2);
  Context ctx = trained([&](Operand ids, const nn::Phase&) { return gather(table, ids); });
  const Array weights = ctx.read(table);
  const auto best_after = [&](int32_t a, int32_t b) {  // memory is output before input
    int32_t best = 0;
    auto score = [&](int32_t v) { return weights.at(v * kVocab + a) + weights.at(v * kVocab + b); };
    for (int32_t v = 0; v < kVocab; ++v)
      if (score(v) > score(best)) best = v;
    return best;
  };
  Generator generate(ctx, last_two);
  const std::vector<Ids> found = generate.batch({{}, {3, 9, 4}}, greedy(5));
  for (auto [expected, all] : {std::pair{found[0], Ids{0, 0}}, {found[1], Ids{9, 4}}})
    for (int32_t id : expected) {
      EXPECT_EQ(id, best_after(all[all.size() - 2], all.back()));
      all.push_back(id);
    }
}

TEST(Generate, EndsBeforeTheEndTokenAndWhereTheCallerSays) {
  const nn::Gpt gpt = small_gpt();
  Context ctx = trained(gpt);
  Generator generate(ctx, gpt, {.capacity = kContext});
  const Ids all = generate({3}, {.tokens = 20, .sampling = {.seed = 1}});
  GenerateOptions until{.tokens = 20, .sampling = {.seed = 1}, .end = all[7]};
  const auto first = std::find(all.begin(), all.end(), all[7]);
  EXPECT_EQ(generate({3}, until), Ids(all.begin(), first));
  Ids heard;
  GenerateOptions four{.tokens = 20, .sampling = {.seed = 1}, .each = [&](int64_t, int32_t id) {
                         heard.push_back(id);
                         return heard.size() < 4;
                       }};
  EXPECT_EQ(generate({3}, four), heard);
  EXPECT_EQ(heard, Ids(all.begin(), all.begin() + 4));
}

TEST(Generate, RefusesWhatItCannotDoInOneSentence) {
  const nn::Gpt gpt = small_gpt();
  Context ctx = trained(gpt);
  Generator generate(ctx, gpt, {.capacity = kContext});
  EXPECT_THROW(generate(Ids{}, greedy(1)), ConfigError);
  EXPECT_THROW(generate(Ids(kContext + 1, 1), greedy(1)), ConfigError);
  EXPECT_THROW(Generator(ctx, gpt, {}), ConfigError);
  EXPECT_THROW(generate({1}, {.sampling = {.temperature = -1}}), ConfigError);
}

TEST(Generate, AModelOfThreeTokensWithoutAWindowIsRefusedByItsShapes) {
  const nn::Embedding letters("letters", {.num = kVocab, .dim = 4});
  const nn::Linear next("next", {.output = {kVocab}});
  auto model = [&](const Tensor& ids, const nn::Phase&) { return next(letters(ids)); };
  Context ctx(here(5));
  ctx.eval(model(tensor(Array({.batch = {1}, .output = {3}}, std::vector<int32_t>{1, 2, 3})), {}));
  Generator generate(ctx, model, {.capacity = kContext});
  expect_refusal<ShapeError>(
      [&] {
        generate({1, 2}, greedy(1));
      },
      {"2 output axes by `next.weight in the Context`", "It was given the ids `1,8|`"});
}

TEST(Sampler, DrawsByTheProbabilities) {
  const std::vector<float> logits = {0, std::log(3.f), std::log(6.f)};
  Sampler sampler(3, {.seed = 2});
  std::map<int32_t, int> count;
  for (uint64_t n = 0; n < 10000; ++n) ++count[sampler(logits, {}, 0, n)];
  EXPECT_NEAR(count[0], 1000, 100);  // three deviations and more
  EXPECT_NEAR(count[1], 3000, 150);
  EXPECT_NEAR(count[2], 6000, 160);
}

TEST(Sampler, KeepsTheLikeliest) {
  const std::vector<float> logits = {0, 3, 2, 1};
  auto drawn = [&](const SamplingOptions& options, const Ids& before = {}) {
    Sampler sampler(4, options);
    std::map<int32_t, int> count;
    for (uint64_t n = 0; n < 2000; ++n) ++count[sampler(logits, before, 1, n)];
    Ids out;
    for (const auto& [id, n] : count) out.push_back(id);
    return out;
  };
  EXPECT_EQ(drawn({}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(drawn({.top_k = 2}), (Ids{1, 2}));
  EXPECT_EQ(drawn({.top_p = 0.6}), (Ids{1}));     // 0.64
  EXPECT_EQ(drawn({.top_p = 0.7}), (Ids{1, 2}));  // 0.64 + 0.24
  EXPECT_EQ(drawn({.temperature = 0.01}), (Ids{1}));
  EXPECT_EQ(drawn({.temperature = 0, .repetition_penalty = 2}, {1}), (Ids{2}));
  EXPECT_EQ(Sampler(2, {.temperature = 0, .repetition_penalty = 3})(std::vector<float>{-1, -2}, Ids{0}, 0, 0), 1)
      << "negative logits become more negative";
}

TEST(Sampler, AChoiceDependsOnSeedSequenceAndPosition) {
  const std::vector<float> logits(100, 0.f);
  Sampler sampler(100, {.seed = 3}), other(100, {.seed = 4});
  EXPECT_EQ(sampler(logits, {}, 2, 7), sampler(logits, {}, 2, 7));
  int same = 0;
  for (uint64_t n = 0; n < 100; ++n) same += sampler(logits, {}, 0, n) == other(logits, {}, 0, n);
  EXPECT_LT(same, 10);
}

}  // namespace
}  // namespace caravan
