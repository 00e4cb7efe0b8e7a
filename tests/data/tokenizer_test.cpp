// Vocabularies of characters: texts become ids and come back.
#include "caravan/data/tokenizer.h"

#include <gtest/gtest.h>

#include "caravan/data/gzip.h"
#include "caravan/data/text.h"
#include "damage.h"
#include "hard_texts.h"
#include "refusal.h"
#include "test_data.h"

namespace caravan::data {
namespace {

using std::string;

const Reader read_tokenizer = [](const string& text) { parse_tokenizer(text, "a.safetensors"); };

TEST(Characters, AreTheDistinctOnesInOrder) {
  const Tokenizer letters = characters("hello, w\u00f6rld\n");
  EXPECT_EQ(letters.size(), 11);
  EXPECT_EQ(letters.decode(Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), "\n ,dehlorw\u00f6");
  EXPECT_EQ(letters.encode("held\u00f6"), (Ids{5, 4, 6, 3, 10}));
  EXPECT_EQ(letters.piece(10), "\u00f6");
  EXPECT_EQ(letters.start(), std::nullopt);
  EXPECT_EQ(letters.end(), std::nullopt);
  EXPECT_EQ(letters.encode(""), Ids{});
  expect_comes_back(letters);
}

TEST(Characters, OfNamesHaveABoundary) {
  const std::vector<string> names{"emma", "ava"};
  const Tokenizer letters = characters(names, {.boundary = "."});
  EXPECT_EQ(letters.size(), 5);
  EXPECT_EQ(letters.start(), 0);
  EXPECT_EQ(letters.end(), 0);
  EXPECT_EQ(letters.encode("ave."), (Ids{1, 4, 2, 0}));
  EXPECT_EQ(characters("b.a", {.boundary = "."}).encode("b.a"), (Ids{2, 0, 1})) << "the text may have it already";
  EXPECT_EQ(characters("", {.boundary = "\u00e9"}).size(), 1);
  expect_comes_back(letters);
}

TEST(Characters, MayBeMoreThanTheText) {
  const Tokenizer letters = characters("abcdefghijklmnopqrstuvwxyz", {.boundary = ".", .also = " z"});
  EXPECT_EQ(letters.size(), 28) << "letters, the boundary, a blank";
  EXPECT_EQ(letters.encode(". az"), (Ids{0, 1, 2, 27}));
}

TEST(Characters, EveryByteSequenceOfTheirTextComesBack) {
  string all;
  for (const string& text : hard_texts()) all += text, all += " ";  // joined texts make no new characters
  for (int b = 0x80; b < 0x100; ++b) all += char(b), all += ' ';
  const Tokenizer tokenizer = characters(all);
  expect_round_trips(tokenizer);
  expect_comes_back(tokenizer);
  EXPECT_EQ(characters("\xff\xc3\u00e9z").decode(Ids{0, 1, 2, 3}), "z\u00e9\xc3\xff") << "bytes come last";
}

TEST(Characters, RefuseWhatTheyDoNotHave) {
  const Tokenizer letters = characters("abc\n");
  expect_refusal<ConfigError>([&] { letters.encode("ab\u00e9"); },
                              {"`\u00e9` at byte 2", "none of the 4 characters", "`\\x0aabc`"});
  expect_refusal<ConfigError>([&] { letters.encode("a\x80"); }, {"`\\x80` at byte 1"});
  expect_refusal<StateError>([&] { letters.decode(Ids{0, 4}); }, {"4 is no id of the vocabulary, which has 0 to 3"});
  expect_refusal<StateError>([&] { letters.piece(-1); }, {"-1 is no id"});
  expect_refusal<ConfigError>([] { characters(""); }, {"without characters"});
  expect_refusal<ConfigError>([] { characters("a", {.boundary = "ab"}); }, {"one character, not `ab`"});
}

TEST(Characters, DamagedTextIsRefused) {
  const string whole = characters("ab\xff", {.boundary = "."}).text();
  EXPECT_EQ(whole, R"({"boundary":true,"symbols":[".","a","b",255],"tokenizer":"characters"})");
  expect_every_prefix_refused(read_tokenizer, whole);
  refused_bit_flips(read_tokenizer, whole);
  expect_refused(read_tokenizer,
                 {{"", "`a.safetensors` has no usable tokenizer: its text is not valid JSON at byte 1"},
                  {"[]", "no object"},
                  {R"({"symbols":["a"]})", "which `tokenizer` it is"},
                  {R"({"tokenizer":"words"})", "no kind of tokenizer `words`"},
                  {R"({"tokenizer":"characters"})", "need `boundary`"},
                  {R"({"tokenizer":"characters","boundary":1,"symbols":["a"]})", "need `boundary`"},
                  {R"({"tokenizer":"characters","boundary":true,"symbols":[]})", "a list of `symbols`"},
                  {R"({"tokenizer":"characters","boundary":true,"symbols":["ab"]})", "is not one character"},
                  {R"({"tokenizer":"characters","boundary":true,"symbols":[""]})", "is not one character"},
                  {R"({"tokenizer":"characters","boundary":true,"symbols":[65]})", "`65` is not one character"},
                  {R"({"tokenizer":"characters","boundary":true,"symbols":[256]})", "`256` is not one character"},
                  {R"({"tokenizer":"characters","boundary":true,"symbols":["a","a"]})", "the character `a` twice"}});
}

TEST(Characters, OfTheDataSets) {
  const auto names = test_data("names/names.txt"), shakespeare = test_data("text/tinyshakespeare.txt");
  if (!names || !shakespeare)
    GTEST_SKIP() << "names and tinyshakespeare are not in the folder that CARAVAN_TEST_DATA names";
  EXPECT_EQ(characters(read_lines(*names), {.boundary = "."}).size(), 27);
  const string text = read_unpacked(*shakespeare);
  const Tokenizer letters = characters(text);
  EXPECT_EQ(letters.size(), 65);
  const Ids ids = letters.encode(text);
  EXPECT_EQ(ids.size(), 1'115'394u);
  EXPECT_EQ(letters.decode(ids), text);
}

// A vocabulary of the user's own: the words of a fixed list.
class Words : public Vocabulary {
 public:
  int64_t size() const override { return 2; }
  Ids encode(std::string_view text) const override { return Ids(text.size(), 1); }
  string piece(int32_t id) const override { return id == 0 ? "no" : "yes"; }
  string text() const override { return ""; }
};

TEST(Tokenizer, MayBeOfTheUsersOwn) {
  Tokenizer words(std::make_shared<Words>());
  EXPECT_EQ(words.decode(Ids{0, 1, 1}), "noyesyes");
  EXPECT_EQ(words.end(), std::nullopt);
  const Tokenizer moved = std::move(words);
  EXPECT_EQ(moved.size(), 2);
  expect_refusal([&] { words.size(); }, {"a Tokenizer"});
}

}  // namespace
}  // namespace caravan::data
