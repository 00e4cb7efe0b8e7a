// Exported models that remember, language models that write, and what cannot be exported.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "deploy/deploy.h"

namespace caravan::deploy {
namespace {

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

// The page shows the file that the example prints.
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
  refused(x * 2, x * 3, {"is computed", "text_test.cpp"});
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
