// Examples for language models: contexts, whole texts, windows of a long text.
#include "caravan/data/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "caravan/caravan.h"
#include "caravan/data/text.h"
#include "checked_device.h"
#include "refusal.h"
#include "test_data.h"

namespace caravan::data {
namespace {

using std::string;
using Texts = std::vector<string>;

Ids ids_of(const Array& array) {
  const auto all = array.as<int32_t>();
  return {all.begin(), all.end()};
}

Ids counted(int32_t n) {
  Ids out;
  for (int32_t i = 0; i < n; ++i) out.push_back(i);
  return out;
}

TEST(Contexts, AreWhatStandsBeforeEverySymbol) {
  const Tokenizer letters = characters(Texts{"emma", "ava"}, {.boundary = "."});
  const auto [inputs, targets] = contexts({"emma", "ava"}, letters, 3);
  EXPECT_EQ(to_string(inputs.shape()), "9|3");
  EXPECT_EQ(to_string(targets.shape()), "9|");
  EXPECT_EQ(letters.decode(ids_of(inputs)), ".....e.ememmmma.....a.avava");
  EXPECT_EQ(letters.decode(ids_of(targets)), "emma.ava.");
  EXPECT_EQ(contexts({}, letters, 3).targets.size(), 0);
}

TEST(WholeTexts, AreFilledUp) {
  const Tokenizer letters = characters(Texts{"emma", "ava"}, {.boundary = "."});
  const auto [inputs, targets] = whole_texts({"emma", "av", ""}, letters, 5);
  EXPECT_EQ(to_string(inputs.shape()), "3,5|");
  EXPECT_EQ(letters.decode(ids_of(inputs)), ".emma.av.......");
  const int32_t a = 1, e = 2, m = 3, v = 4, no = kNoTarget;
  EXPECT_EQ(ids_of(targets), (Ids{e, m, m, a, 0, a, v, 0, no, no, 0, no, no, no, no}));
  expect_refusal<ConfigError>(
      [&] {
        whole_texts({"a", "emmav"}, letters, 5);
      },
      {"`emmav` has 5 ids", "a sequence of 5 has room for 4"});
}

TEST(Examples, NeedABoundary) {
  const Tokenizer letters = characters("ab."), names = characters("ab", {.boundary = "."});
  expect_refusal<ConfigError>([&] { contexts({"a"}, letters, 3); }, {"give its characters a .boundary"});
  expect_refusal<ConfigError>([&] { whole_texts({"a"}, letters, 3); }, {"give its characters a .boundary"});
  expect_refusal<ConfigError>([&] { contexts({"a.b"}, names, 3); }, {"`a.b` contains the boundary `.`"});
  expect_refusal<ConfigError>([&] { contexts({"a"}, names, 0); }, {"a sequence of 0 ids"});
  expect_refusal<ConfigError>([&] { contexts({"a\nb"}, names, 2); }, {"`\\x0a` at byte 1"});
}

TEST(Split, OfTextsIsThatOfArrays) {
  Texts texts;
  for (int i = 0; i < 103; ++i) texts.push_back(std::to_string(i));
  const auto parts = split(texts, {0.8, 0.1, 0.1}, 7);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].size(), 82u);
  EXPECT_EQ(parts[1].size(), 11u);
  EXPECT_EQ(parts[2].size(), 10u);
  std::set<string> all;
  for (const Texts& part : parts) all.insert(part.begin(), part.end());
  EXPECT_EQ(all.size(), texts.size());
  EXPECT_EQ(parts, split(texts, {0.8, 0.1, 0.1}, 7));
  EXPECT_NE(parts, split(texts, {0.8, 0.1, 0.1}, 8));
  const Array numbers({.batch = {103}}, counted(103));
  EXPECT_EQ(std::to_string(int(split({numbers}, {0.8}, 7)[0][0].at(5))), parts[0][5]);
  expect_refusal<ConfigError>([&] { split(texts, {0.8, 0.3}, 7); }, {"sum to 1.1"});
}

TEST(SplitText, KeepsTheOrder) {
  const auto [train, validation] = split_text(counted(105));
  EXPECT_EQ(train, counted(94));
  EXPECT_EQ(validation.size(), 11u);
  EXPECT_EQ(validation.front(), 94);
  EXPECT_TRUE(split_text({}).train.empty());
  expect_refusal<ConfigError>([&] { split_text({1, 2}, 1.5); }, {"a fraction of 1.5"});
}

TEST(Windows, BeginAnywhere) {
  const WindowOptions options{.length = 4, .batch = 50, .steps = 20, .seed = 3};
  const Array starts = random_starts(10, options);
  EXPECT_EQ(to_string(starts.shape()), "20,50|");
  const Ids all = ids_of(starts);
  EXPECT_EQ(std::set<int32_t>(all.begin(), all.end()), (std::set<int32_t>{0, 1, 2, 3, 4, 5}));
  for (int32_t place = 0; place < 6; ++place)
    EXPECT_NEAR(double(std::count(all.begin(), all.end(), place)), 1000 / 6., 50);
  EXPECT_EQ(ids_of(random_starts(10, options)), all);

  WindowOptions later = options;
  later.start_step = 15;
  later.steps = 5;
  EXPECT_EQ(ids_of(random_starts(10, later)), Ids(all.end() - 250, all.end())) << "a run that is resumed";
  later.seed = 4;
  EXPECT_NE(ids_of(random_starts(10, later)), Ids(all.end() - 250, all.end()));
}

TEST(Windows, CoverAText) {
  EXPECT_EQ(ids_of(even_starts(9, 4)), (Ids{0, 4}));
  EXPECT_EQ(ids_of(even_starts(8, 4)), (Ids{0}));
  EXPECT_EQ(ids_of(even_starts(5, 4)), (Ids{0}));
  const auto [inputs, targets] = windows(counted(9), even_starts(9, 4), 4);
  EXPECT_EQ(to_string(inputs.shape()), "2,4|");
  EXPECT_EQ(ids_of(inputs), counted(8));
  EXPECT_EQ(ids_of(targets), (Ids{1, 2, 3, 4, 5, 6, 7, 8}));
  expect_refusal<ConfigError>([] { random_starts(4, {.length = 4}); }, {"a window of 4 ids", "a text of 4"});
  expect_refusal<ConfigError>([] { even_starts(0, 4); }, {"a text of 0"});
  expect_refusal<ConfigError>([] { even_starts(int64_t(1) << 31, 4); }, {"too long"});
  expect_refusal<ConfigError>([] { random_starts(9, {.length = 4, .batch = 0}); }, {"0 windows"});
  expect_refusal<StateError>([] { windows(counted(9), rows({5}, DType::i32), 4); }, {"at 5", "a text of 9"});
}

// What sequences.h shows: the step gathers its windows from the one text.
TEST(Windows, AreGatheredByTheStep) {
  Ids ids;
  for (int32_t i = 0; i < 100; ++i) ids.push_back(i * 37 % 101);
  const Array text = text_table(ids), starts = random_starts(text.size(), {.length = 6, .batch = 3, .steps = 4});
  EXPECT_EQ(to_string(text.shape()), "100->");
  Context ctx(checked());
  Index step("step");
  Tensor at = einsum("b| => b,0|", starts[step]) + einsum("t => t|", iota(6));
  Tensor inputs = gather(text, at), targets = gather(text, at + 1);
  Routine run = ctx.compile(observe(inputs) & observe(targets));
  const Sequences expected = windows(ids, starts, 6);
  for (int64_t s = 0; s < 4; ++s) {
    run.run({{step, s}});
    EXPECT_EQ(run.read(inputs).values(), expected.inputs.part(s, 1).values());
    EXPECT_EQ(run.read(targets).values(), expected.targets.part(s, 1).values());
  }
}

TEST(Names, GiveTheExamplesOfMakemore) {
  const auto path = test_data("names/names.txt");
  if (!path) GTEST_SKIP() << "names is not in the folder that CARAVAN_TEST_DATA names";
  const Texts names = read_lines(*path);
  const Tokenizer letters = characters(names, {.boundary = "."});
  EXPECT_EQ(contexts(names, letters, 3).inputs.shape(), parse_shape("228146|3"));
  EXPECT_EQ(whole_texts(names, letters, 16).inputs.shape(), parse_shape("32033,16|"));
  expect_refusal<ConfigError>([&] { whole_texts(names, letters, 15); }, {"15 ids"});
}

}  // namespace
}  // namespace caravan::data
