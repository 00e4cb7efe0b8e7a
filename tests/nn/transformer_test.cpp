// Embeddings, positions, attention and the models of them.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/layers.h"

namespace caravan {
namespace {

TEST(Embedding, TakesRowsAndAddsTheirGradients) {
  Embedding tok("tok", {.num = 4, .dim = 2, .dtype = kDouble});
  Tensor y = tok(ids("2,2|", {3, 1, 1, 1}));
  Context ctx(kInDouble);
  Array values = ctx.eval(y);
  Table w(ctx.read("tok.weight"));
  expect_each(values, "2,2|2", [&](auto& i) { return w(i[0] + i[1] == 0 ? 3 : 1, i[2]); });
  expect_each(ctx.eval(grad(sum(y), tok.weight)), "4|2", [](auto& i) { return Values{0, 3, 0, 1}[size_t(i[0])]; });
  EXPECT_REFUSED(Embedding("tok", {.num = 4}), "needs .num and .dim");
}

TEST(Positions, LearnedAreRowsOfATable) {
  LearnedPositions pos("pos", {.num = 5, .dim = 2, .dtype = kDouble});
  Table t(drawn("x", "2,3|2"));
  Context ctx(kInDouble);
  Array y = ctx.eval(pos(drawn_tensor("x", "2,3|2")));
  Table w(ctx.read("pos.weight"));
  expect_each(y, "2,3|2", [&](auto& i) { return t(i[0], i[1], i[2]) + w(i[1], i[2]); });
  EXPECT_REFUSED(ctx.shape(pos(drawn_tensor("x", "2,6|2"))),
                 "it has 5 positions (.num, the .ctx of a Gpt), but x is `2,6|2`, a sequence of 6");
}

TEST(Positions, SinusoidalAreThoseOfThePaper) {
  Table t(drawn("x", "2,5|6"));
  Context ctx(kInDouble);
  expect_each(ctx.eval(SinusoidalPositions{}(drawn_tensor("x", "2,5|6"))), "2,5|6", [&](auto& i) {
    const double angle = double(i[1]) / std::pow(10000, double(i[2] / 2 * 2) / 6);
    return t(i[0], i[1], i[2]) + (i[2] % 2 ? std::cos(angle) : std::sin(angle));
  });
}

TEST(Positions, RotaryTurnsPairs) {
  Context ctx(kInDouble);
  // The row of the facts: half-dimension 2, position 1.
  Tensor x = tensor(Array(parse_shape("2|1,4"), {5, 6, 7, 8, 5, 6, 7, 8}, kDouble));
  expect_near(ctx.eval(rotary(x)), {5, 6, 7, 8, -2.3473, 7.4492, 6.9197, 8.0696}, 5e-5);
  Table t(drawn("x", "2,5|3,6"));
  for (bool halves : {false, true})
    for (int first : {0, 4}) {
      RotaryOptions options{.base = 500, .halves = halves};
      if (first) options.first = first;
      expect_each(ctx.eval(rotary(drawn_tensor("x", "2,5|3,6"), options)), "2,5|3,6", [&](auto& i) {
        const int64_t p = halves ? i[3] % 3 : i[3] / 2, side = halves ? i[3] / 3 : i[3] % 2;
        const double angle = double(i[1] + first) * std::pow(500, -double(p) / 3);
        const double a = t(i[0], i[1], i[2], halves ? p : 2 * p), b = t(i[0], i[1], i[2], halves ? p + 3 : 2 * p + 1);
        return side == 0 ? a * std::cos(angle) - b * std::sin(angle) : a * std::sin(angle) + b * std::cos(angle);
      });
    }
}

// Queries [b, s, heads, d], keys and values [b, t, kv heads, d].
double naive_attention(const Table& q, const Table& k, const Table& v,
                       const std::function<bool(int64_t, int64_t)>& sees, int64_t b, int64_t s, int64_t head,
                       int64_t c) {
  const int64_t shared = head / (q.sizes[2] / k.sizes[2]), d = q.sizes[3];
  double top = 0, bottom = 0;
  for (int64_t t = 0; t < k.sizes[1]; ++t) {
    if (!sees(s, t)) continue;
    double score = 0;
    for (int64_t e = 0; e < d; ++e) score += q(b, s, head, e) * k(b, t, shared, e);
    const double weight = std::exp(score / std::sqrt(double(d)));
    top += weight * v(b, t, shared, c), bottom += weight;
  }
  return top / bottom;
}

TEST(Attend, EqualsTheLoop) {
  Tensor q = drawn_tensor("q", "2,5|4,3"), k = drawn_tensor("k", "2,5|4,3"), v = drawn_tensor("v", "2,5|4,3");
  Tensor fewer_k = drawn_tensor("k2", "2,5|2,3"), fewer_v = drawn_tensor("v2", "2,5|2,3");
  Tensor longer_k = drawn_tensor("k3", "2,7|4,3"), longer_v = drawn_tensor("v3", "2,7|4,3");
  Array allowed(parse_shape("5|5->"), DType::boolean);
  for (int64_t i = 0; i < 25; ++i) allowed.set(i, i % 3 != 0 || i % 6 == 0);
  Table seen(allowed), tq(drawn("q", "2,5|4,3"));
  auto everything = [](int64_t, int64_t) { return true; };
  auto past = [](int64_t s, int64_t t) { return t <= s; };
  auto given = [&](int64_t s, int64_t t) { return seen(s, t) != 0; };
  const struct {
    Tensor k, v;
    Table tk, tv;
    AttendOptions options;
    std::function<bool(int64_t, int64_t)> sees;
  } rows[] = {
      {k, v, Table(drawn("k", "2,5|4,3")), Table(drawn("v", "2,5|4,3")), {}, everything},
      {k, v, Table(drawn("k", "2,5|4,3")), Table(drawn("v", "2,5|4,3")), {.causal = true}, past},
      {k, v, Table(drawn("k", "2,5|4,3")), Table(drawn("v", "2,5|4,3")), {.mask = tensor(allowed)}, given},
      {k,
       v,
       Table(drawn("k", "2,5|4,3")),
       Table(drawn("v", "2,5|4,3")),
       {.causal = true, .mask = tensor(allowed)},
       [&](int64_t s, int64_t t) { return past(s, t) && (given(s, t)); }},
      {fewer_k, fewer_v, Table(drawn("k2", "2,5|2,3")), Table(drawn("v2", "2,5|2,3")), {.causal = true}, past},
      {longer_k, longer_v, Table(drawn("k3", "2,7|4,3")), Table(drawn("v3", "2,7|4,3")), {}, everything},
  };
  for (const auto& row : rows) {
    Context ctx(kInDouble);
    expect_each(ctx.eval(attend(q, row.k, row.v, row.options)), "2,5|4,3",
                [&](auto& i) { return naive_attention(tq, row.tk, row.tv, row.sees, i[0], i[1], i[2], i[3]); });
  }
}

TEST(Attend, APositionThatSeesNothingAveragesAll) {
  Array nothing(parse_shape("2|3->"), DType::boolean);
  Tensor v = drawn_tensor("v", "3|1,2");
  Table t(drawn("v", "3|1,2"));
  Context ctx(kInDouble);
  Array y = ctx.eval(attend(drawn_tensor("q", "2|1,2"), drawn_tensor("k", "3|1,2"), v, {.mask = tensor(nothing)}));
  expect_each(y, "2|1,2", [&](auto& i) { return (t(0, 0, i[2]) + t(1, 0, i[2]) + t(2, 0, i[2])) / 3; });
}

// The projection lies as PyTorch's [(heads + 2 kv heads) * d, dim]: queries, keys, values, each by heads.
TEST(SelfAttention, ProjectsAttendsAndProjects) {
  for (int64_t kv : {4, 2}) {
    SelfAttention attention("attn",
                            {.dim = 8, .heads = 4, .kv_heads = kv, .causal = true, .bias = true, .dtype = kDouble});
    Array x = drawn("x", "2,3|8");
    Context ctx(kInDouble);
    Array y = ctx.eval(attention(tensor(x)));
    const int64_t rows = (4 + 2 * kv) * 2;
    Table w(ctx.read("attn.qkv.weight").reshaped(parse_shape(std::to_string(rows) + ",8"))),
        p(ctx.read("attn.proj.weight").reshaped(parse_shape("8,8"))), t(x);
    auto projected = [&](int64_t from, int64_t heads) {
      Array out(parse_shape("2,3|" + std::to_string(heads) + ",2"), kDouble);
      for (int64_t i = 0; i < out.size(); ++i) {
        double sum = 0;
        for (int c = 0; c < 8; ++c)
          sum += w(from * 2 + i % (heads * 2), c) * t(i / (heads * 6), i / (heads * 2) % 3, c);
        out.set(i, sum);
      }
      return Table(out);
    };
    Table q = projected(0, 4), k = projected(4, kv), v = projected(4 + kv, kv);
    expect_each(y, "2,3|8", [&](auto& i) {
      double sum = 0;
      for (int c = 0; c < 8; ++c)
        sum += p(i[2], c) * naive_attention(
                                q, k, v, [](int64_t s, int64_t u) { return u <= s; }, i[0], i[1], c / 2, c % 2);
      return sum;
    });
    EXPECT_EQ(names(parameters(attention)),
              (Names{"attn.qkv.weight", "attn.qkv.bias", "attn.proj.weight", "attn.proj.bias"}));
  }
  EXPECT_REFUSED(SelfAttention("attn", {.dim = 9, .heads = 2}), "heads must divide dim");
  EXPECT_REFUSED(SelfAttention("attn", {.dim = 8, .heads = 4, .kv_heads = 3}), "kv_heads must divide heads");
}

TEST(CrossAttention, ReadsAMemoryOfAnotherLengthAndWidth) {
  CrossAttention attention("cross", {.dim = 4, .heads = 2, .dtype = kDouble});
  Tensor x = drawn_tensor("x", "2,3|4"), memory = drawn_tensor("memory", "2,5|6");
  Context ctx(kInDouble);
  Tensor both = attention.kv.weight(memory);
  Tensor k = einsum("... | h^2, d => ... | h, d", both), v = einsum("... | 2^h, d => ... | h, d", both);
  Tensor expected = attention.proj(attend(attention.q.weight(x), k, v));
  EXPECT_EQ(to_string(ctx.shape(attention(x, memory))), "2,3|4");
  expect_near(ctx.eval(attention(x, memory)), ctx.eval(expected).values());
}

TEST(Transformer, BlocksArePreOrPostNorm) {
  Tensor x = drawn_tensor("x", "2,3|4"), memory = drawn_tensor("memory", "2,5|4");
  auto feed = [](const auto& block, const Tensor& y) { return block.down(gelu(block.up(y))); };
  Context ctx(kInDouble);
  EncoderBlock pre("pre", {.dim = 4, .heads = 2, .dtype = kDouble}),
      post("post", {.dim = 4, .heads = 2, .pre_norm = false, .dtype = kDouble});
  Tensor a = x + pre.attn(pre.ln1(x)), b = post.ln1(x + post.attn(x));
  expect_near(ctx.eval(pre(x)), ctx.eval(a + feed(pre, pre.ln2(a))).values());
  expect_near(ctx.eval(post(x)), ctx.eval(post.ln2(b + feed(post, b))).values());
  EXPECT_EQ(
      names(parameters(pre)),
      (Names{"pre.ln1.weight", "pre.ln1.bias", "pre.attn.qkv.weight", "pre.attn.proj.weight", "pre.attn.proj.bias",
             "pre.ln2.weight", "pre.ln2.bias", "pre.up.weight", "pre.up.bias", "pre.down.weight", "pre.down.bias"}));

  DecoderBlock early("early", {.dim = 4, .heads = 2, .dtype = kDouble}),
      late("late", {.dim = 4, .heads = 2, .pre_norm = false, .dtype = kDouble});
  a = x + early.attn(early.ln1(x)), a = a + early.cross(early.ln2(a), memory);
  b = late.ln1(x + late.attn(x)), b = late.ln2(b + late.cross(b, memory));
  expect_near(ctx.eval(early(x, memory)), ctx.eval(a + feed(early, early.ln3(a))).values());
  expect_near(ctx.eval(late(x, memory)), ctx.eval(late.ln3(b + feed(late, b))).values());
  EXPECT_TRUE(early.attn.options.causal);
  EXPECT_FALSE(early.cross.options.causal);
}

TEST(Gpt, HasTheNamesOfItsPartsAndSeesThePastAlone) {
  for (bool tied : {false, true}) {
    Gpt model({.vocab = 11,
               .ctx = 6,
               .dim = 8,
               .heads = 2,
               .layers = 2,
               .tied = tied,
               .init = normal_init(0, 0.3),
               .dtype = kDouble});
    Names expected = {"tok.weight", "pos.weight"};
    for (const char* block : {"blocks.0", "blocks.1"})
      for (const char* part : {"ln1.weight", "ln1.bias", "attn.qkv.weight", "attn.proj.weight", "attn.proj.bias",
                               "ln2.weight", "ln2.bias", "up.weight", "up.bias", "down.weight", "down.bias"})
        expected.push_back(std::string(block) + "." + part);
    expected.insert(expected.end(), {"ln.weight", "ln.bias"});
    if (!tied) expected.push_back("head.weight");
    EXPECT_EQ(names(parameters(model)), expected);

    Context ctx(kInDouble);
    Array y = ctx.eval(model(ids("2,5|", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}))),
          z = ctx.eval(model(ids("2,5|", {1, 2, 3, 0, 0, 6, 7, 8, 0, 0})));
    ASSERT_EQ(to_string(y.shape()), "2,5|11");
    Table a(y), b(z);
    double after = 0;
    for (int n = 0; n < 2; ++n)
      for (int c = 0; c < 11; ++c) {
        for (int t = 0; t < 3; ++t) ASSERT_NEAR(a(n, t, c), b(n, t, c), 1e-12);
        after = std::max(after, std::abs(a(n, 4, c) - b(n, 4, c)));
      }
    EXPECT_GT(after, 0.01);
    EXPECT_EQ(to_string(ctx.read("blocks.0.attn.qkv.weight").shape()), "8->6,4");
  }
}

TEST(Gpt, LearnsToCountAlsoInBf16) {
  for (std::optional<DType> precision : {std::optional<DType>(), std::optional(DType::bf16)}) {
    Gpt model({.vocab = 7, .ctx = 6, .dim = 16, .heads = 2, .layers = 1, .dropout = 0.1});
    Index step("step");
    Phase phase = training({.step = step, .precision = precision});
    Tensor x = ids("3,6|", {0, 1, 2, 3, 4, 5, 2, 3, 4, 5, 6, 0, 5, 6, 0, 1, 2, 3}),
           y = ids("3,6|", {1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 0, 1, 6, 0, 1, 2, 3, 4});
    Tensor loss = cross_entropy(model(x, phase), y), quiet = cross_entropy(model(x), y);
    Context ctx({.seed = 5, .device = "cpu", .compiler_flags = {"-O0"}});
    Routine train = ctx.compile(train_step(loss, adam({.lr = 1e-2})) & phase.updates());
    EXPECT_GT(ctx.eval(quiet).item(), 1.8);
    for (int s = 0; s < 100; ++s) train.run({{step, s}});
    EXPECT_LT(ctx.eval(quiet).item(), 0.1);
  }
}

}  // namespace
}  // namespace caravan
