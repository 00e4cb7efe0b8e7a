// The tokenizers of GPT-2 and Llama. tools/tokenizer_reference.py gives the encodings that are expected of the real
// ones.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "caravan/data/atomic_file.h"
#include "caravan/data/gpt2_words.h"
#include "caravan/data/gzip.h"
#include "caravan/data/tokenizer.h"
#include "caravan/data/unicode_classes.h"
#include "damage.h"
#include "hard_texts.h"
#include "refusal.h"
#include "sanitized.h"
#include "temporary_folder.h"
#include "test_data.h"

namespace caravan::data {
namespace {

using std::string;
using Texts = std::vector<string>;

Texts words(std::string_view text) {
  Texts out;
  while (!text.empty()) {
    out.emplace_back(text.substr(0, first_word(text)));
    text.remove_prefix(out.back().size());
  }
  return out;
}

TEST(Gpt2Words, HaveTheBlankBeforeThem) {
  const std::pair<string, Texts> rows[] = {
      {"Hello world", {"Hello", " world"}},
      {" a1b", {" a", "1", "b"}},
      {"don't you'll we've I'm he'd it's they're",
       {"don", "'t", " you", "'ll", " we", "'ve", " I", "'m", " he", "'d", " it", "'s", " they", "'re"}},
      {"IT'S '90s ''s", {"IT", "'", "S", " '", "90", "s", " ''", "s"}},
      {"a  b", {"a", " ", " b"}},
      {"a   b", {"a", "  ", " b"}},
      {"a\nb", {"a", "\n", "b"}},
      {"a\n\nb", {"a", "\n", "\n", "b"}},
      {"a \n b", {"a", " \n", " b"}},
      {"a  ", {"a", "  "}},
      {" ", {" "}},
      {"x += 1;", {"x", " +=", " 1", ";"}},
      {"\u00e9t\u00e9 \u6f22\u5b57\u0664\u00bd", {"\u00e9t\u00e9", " \u6f22\u5b57", "\u0664\u00bd"}},
      {"\u00a0x\u3000", {"\u00a0", "x", "\u3000"}},  // other blanks belong to no word
      {" \u3000x", {" ", "\u3000", "x"}},
      {"a\xff\xfe"
       "b",
       {"a", "\xff\xfe", "b"}},
      {" \xe2\x82", {" \xe2\x82"}},
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(words(text), expected) << text;
}

TEST(CharacterClass, OfUnicode) {
  const std::pair<CharacterClass, std::u32string> rows[] = {
      {CharacterClass::letter, U"azAZ\u00aa\u00e9\u03b1\u0416\u05d0\u0e01\u3042\u6f22\uac00\U00020000"},
      {CharacterClass::number, U"09\u00b2\u00bd\u0664\u2167\u3007\U0001d7d8"},
      {CharacterClass::space, U" \t\n\v\f\r\u0085\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000"},
      {CharacterClass::other, U"!_'\u0301\u200b\u200d\u001c\u20ac\ufffd\U0001f600\U0010ffff"},
  };
  for (const auto& [kind, codes] : rows)
    for (const char32_t code : codes) EXPECT_EQ(character_class(code), kind) << "U+" << std::hex << uint32_t(code);
  EXPECT_EQ(character_class(0), CharacterClass::other);
}

// A byte as the files of GPT-2 write it.
string letter(int byte) {
  uint32_t other = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool kept = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    if (b == byte) return utf8(kept ? uint32_t(b) : other);
    other += !kept;
  }
  return "";
}

// A small vocabulary of GPT-2's kind: the byte b is the id b, merge m makes the id 256 + m, and <|endoftext|> is the
// last.
struct SmallFiles {
  std::map<string, int> pieces;
  string merges = "#version: 0.2\n";
  explicit SmallFiles(const std::vector<std::pair<string, string>>& pairs) {
    for (int b = 0; b < 256; ++b) pieces[letter(b)] = b;
    for (const auto& [left, right] : pairs) {
      merges += left + " " + right + "\n";
      pieces.emplace(left + right, int(pieces.size()));
    }
    pieces.emplace("<|endoftext|>", int(pieces.size()));
  }
  string json() const { return nlohmann::json(pieces).dump(); }
  Tokenizer tokenizer() const { return parse_gpt2_tokenizer({"encoder.json", json()}, {"vocab.bpe", merges}); }
};
const SmallFiles kSmall({{"h", "e"}, {"l", "l"}, {"he", "ll"}, {letter(' '), "hell"}, {"\u00c3", "\u00a9"}});

TEST(Gpt2Tokenizer, MergesPairsByRank) {
  const Tokenizer small = kSmall.tokenizer();
  EXPECT_EQ(small.size(), 262);
  EXPECT_EQ(small.end(), 261);
  EXPECT_EQ(small.start(), 261);
  EXPECT_EQ(small.encode("hello hell"), (Ids{258, 'o', 259}));
  EXPECT_EQ(small.encode("lll"), (Ids{257, 'l'})) << "the leftmost of equal pairs";
  EXPECT_EQ(small.encode("\u00e9"), (Ids{260}));
  EXPECT_EQ(small.encode("\xc3 \xa9"), (Ids{0xc3, ' ', 0xa9})) << "no pair crosses the end of a word";
  EXPECT_EQ(small.piece(259), " hell");
  EXPECT_EQ(small.piece(261), "<|endoftext|>");
  EXPECT_EQ(small.encode("<|").size(), 2u);
  expect_round_trips(small);
  expect_comes_back(small);
}

// GPT-2's own way: find the pair of the lowest rank, merge it wherever it is, begin again.
Ids merged_plainly(Ids ids, const std::vector<std::pair<int32_t, int32_t>>& merges) {
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    Ids next;
    for (size_t i = 0; i < ids.size(); ++i)
      if (i + 1 < ids.size() && std::pair(ids[i], ids[i + 1]) == merges[rank])
        next.push_back(256 + int32_t(rank)), ++i;
      else
        next.push_back(ids[i]);
    ids = next;
  }
  return ids;
}

TEST(Gpt2Tokenizer, EqualsThePlainLoopOnRandomMerges) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::pair<string, string>> lines;
    std::vector<std::pair<int32_t, int32_t>> merges;
    std::vector<std::pair<string, int32_t>> known{{"a", 'a'}, {"b", 'b'}, {"c", 'c'}};
    std::map<string, int> seen;
    while (merges.size() < 12) {
      const auto [left, left_id] = known[random() % known.size()];
      const auto [right, right_id] = known[random() % known.size()];
      if (left.size() + right.size() > 9 || !seen.emplace(left + right, 0).second) continue;
      lines.emplace_back(left, right);
      merges.emplace_back(left_id, right_id);
      known.emplace_back(left + right, 255 + int32_t(merges.size()));
    }
    const Tokenizer tokenizer = SmallFiles(lines).tokenizer();
    for (int i = 0; i < 50; ++i) {
      string word;
      for (int n = int(random() % 40); n > 0; --n) word += "abc"[random() % 3];
      EXPECT_EQ(tokenizer.encode(word), merged_plainly(Ids(word.begin(), word.end()), merges)) << word;
    }
  }
}

const Reader read_pieces = [](const string& json) {
  parse_gpt2_tokenizer({"encoder.json", json}, {"vocab.bpe", kSmall.merges});
};
const Reader read_merges = [](const string& merges) {
  parse_gpt2_tokenizer({"encoder.json", kSmall.json()}, {"vocab.bpe", merges});
};

TEST(Gpt2Tokenizer, DamagedFilesAreRefused) {
  const auto changed = [](const string& piece, int id) {
    SmallFiles files = kSmall;
    if (id < 0)
      files.pieces.erase(piece);
    else
      files.pieces[piece] = id;
    return files.json();
  };
  expect_refused(read_pieces, {{"", "`encoder.json` has no usable tokenizer: it is not valid JSON at byte 1"},
                               {"[]", "not an object"},
                               {"{}", "no piece for the byte 0x00"},
                               {R"({"a":0,"a":1})", "the name `a` twice"},
                               {R"({"a":{"b":1}})", "nested"},
                               {R"({"a":-1})", "the id of `a` is `-1`"},
                               {R"({"a":"1"})", "the id of `a` is"},
                               {R"({"a":1.5})", "the id of `a` is `1.5`"},
                               {R"({"a":18446744073709551615})", "those of 1 pieces are 0 to 0"},
                               {R"({"":0})", "does not stand for bytes"},
                               {R"({"\u6f22":0})", "does not stand for bytes"},
                               {R"({" ":0})", "the piece ` ` does not stand for bytes"},
                               {changed("a", 'b'), "have the same id, 98"},
                               {changed("a", 1000), "the id of `a` is `1000`, and those of 262 pieces are 0 to 261"},
                               {changed("a", -1), "`<|endoftext|>` is `261`, and those of 261 pieces"}});
  expect_refused(read_merges, {{"", "no merge makes `he` of `encoder.json`"},
                               {"#version: 0.2\n", "`vocab.bpe` has no usable tokenizer: no merge makes"},
                               {"h\n", "merge 1, `h`, is not two pieces"},
                               {"h e l\n", "is not two pieces"},
                               {" e\n", "is not two pieces"},
                               {"h \n", "is not two pieces"},
                               {"h e\nh e\n", "merge 2, `h e`, is there twice"},
                               {"h \u6f22\n", "which is not in the vocabulary"},
                               {"h z\n", "gives a piece that is not in the vocabulary"},
                               {"he ll\n", "uses `he` before a merge makes it"},
                               {kSmall.merges.substr(0, kSmall.merges.size() - 4), "merge 5"}});
  // A prefix that ends within or after a line lacks a merge, but for the last line end.
  const string whole = kSmall.merges.substr(0, kSmall.merges.size() - 1);
  expect_every_prefix_refused(read_merges, whole);
  refused_bit_flips(read_merges, whole);
  EXPECT_EQ(refusal(read_merges, kSmall.merges.substr(14)), "") << "without the version";
  EXPECT_EQ(refusal(read_merges, kSmall.merges + "\n\n"), "");
  const string json = kSmall.json();
  for (size_t n = 0; n < json.size(); n += 97) EXPECT_NE(refusal(read_pieces, json.substr(0, n)), "");
}

TEST(Gpt2Tokenizer, IsReadFromAFolder) {
  const TemporaryFolder folder;
  expect_refusal<ConfigError>([&] { read_gpt2_tokenizer(folder.path); }, {"neither encoder.json nor vocab.json"});
  write_file(folder.path + "/vocab.json.gz", gzip(kSmall.json()));
  expect_refusal<ConfigError>([&] { read_gpt2_tokenizer(folder.path); }, {"neither vocab.bpe nor merges.txt"});
  write_file(folder.path + "/merges.txt", kSmall.merges);
  EXPECT_EQ(read_gpt2_tokenizer(folder.path).encode(" hell"), (Ids{259}));
}

// The real one; nothing where there are no files. It is read once.
const std::optional<Tokenizer>& real_gpt2() {
  static const auto folder = test_data("gpt2-bpe");
  static const std::optional<Tokenizer> out = folder ? std::optional(read_gpt2_tokenizer(*folder)) : std::nullopt;
  return out;
}

TEST(Gpt2Tokenizer, GivesTheKnownEncodings) {
  if (!real_gpt2()) GTEST_SKIP() << "the byte pairs of GPT-2 are not in the folder that CARAVAN_TEST_DATA names";
  const Tokenizer gpt2 = *real_gpt2();
  EXPECT_EQ(gpt2.size(), 50257);
  EXPECT_EQ(gpt2.end(), 50256);
  // clang-format off
  const std::pair<string, Ids> rows[] = {
      {"", {}},
      {"Hello world", {15496, 995}},
      {" Hello", {18435}},
      {"This is some text", {1212, 318, 617, 2420}},
      {"indivisible", {521, 452, 12843}},
      {"toString constructor hasOwnProperty valueOf", {1462, 10100, 23772, 468, 23858, 21746, 1988, 5189}},
      {"hello \U0001f44b world \U0001f30d", {31373, 50169, 233, 995, 12520, 234, 235}},
      {"I'm sure they'll say we've won, don't you?", {40, 1101, 1654, 484, 1183, 910, 356, 1053, 1839, 11, 836, 470, 345, 30}},
      {"It'S  three   blanks,\ttabs\n\nand  \n  lines ", {1026, 6, 50, 220, 1115, 220, 220, 698, 2283, 11, 197, 8658, 82, 198, 198, 392, 220, 220, 198, 220, 3951, 220}},
      {"for (int i = 0; i < n; ++i) {\n    x[i] += 1.5e-3;\n}\n", {1640, 357, 600, 1312, 796, 657, 26, 1312, 1279, 299, 26, 19969, 72, 8, 1391, 198, 220, 220, 220, 2124, 58, 72, 60, 15853, 352, 13, 20, 68, 12, 18, 26, 198, 92, 198}},
      {"na\u00efve caf\u00e9 \u00c6r\u00f8sk\u00f8bing", {2616, 38776, 40304, 6184, 228, 81, 24172, 8135, 24172, 4623}},
      {"\u6f22\u5b57 \u0438 \u043a\u0438\u0440\u0438\u043b\u043b\u0438\u0446\u0430", {162, 120, 95, 27764, 245, 12466, 116, 12466, 118, 18849, 21169, 18849, 30143, 30143, 18849, 141, 228, 16142}},
      {"1234567 \u00bd \u2167", {10163, 2231, 3134, 25208, 2343, 227, 100}},
      {"\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea", {41840, 101, 447, 235, 41840, 102, 447, 235, 41840, 100, 447, 235, 41840, 99, 12520, 229, 102, 8582, 229, 103}},
      {"<|endoftext|>", {27, 91, 437, 1659, 5239, 91, 29}},
      {"\u00a0\u2003x\u3000", {1849, 447, 225, 87, 5099, 222}},
  };
  // clang-format on
  for (const auto& [text, ids] : rows) EXPECT_EQ(gpt2.encode(text), ids) << text;
  expect_round_trips(gpt2);
  expect_comes_back(gpt2);
}

TEST(Gpt2Tokenizer, IsFast) {
  const auto shakespeare = test_data("text/tinyshakespeare.txt");
  if (!real_gpt2() || !shakespeare)
    GTEST_SKIP() << "gpt2-bpe or tinyshakespeare is not in the folder that CARAVAN_TEST_DATA names";
  const Tokenizer gpt2 = *real_gpt2();
  const string text = read_unpacked(*shakespeare);
  const auto before = std::chrono::steady_clock::now();
  const Ids ids = gpt2.encode(text);
  gpt2.encode(string(100'000, 'a'));  // one word
  const auto taken = std::chrono::steady_clock::now() - before;
  EXPECT_TRUE(kSanitized || taken < std::chrono::seconds(20)) << "quadratic time would be minutes";
  EXPECT_EQ(ids.size(), 338'025u);
  EXPECT_EQ(gpt2.decode(ids), text);
}

// A tokenizer.bin with these pieces after those that every one begins with; scores are 0, -1, -2, ..
template <class Number>
string bytes_of(Number value) {
  string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}
string piece_record(const string& piece, float score) {
  return bytes_of(score) + bytes_of(int32_t(piece.size())) + piece;
}
string first_records() {
  string out = piece_record("<unk>", 0) + piece_record("\n<s>\n", 0) + piece_record("\n</s>\n", 0);
  for (int b = 0; b < 256; ++b) {
    char piece[8];
    std::snprintf(piece, sizeof piece, "<0x%02X>", unsigned(b));
    out += piece_record(piece, 0);
  }
  return out;
}
string tokenizer_bin(const Texts& pieces) {
  string out = bytes_of(int32_t(8)) + first_records();
  for (size_t i = 0; i < pieces.size(); ++i) out += piece_record(pieces[i], -float(i));
  return out;
}
const Texts kPieces{"he", "ll", " hell", "hell", " ", "h", "e", "l", "o", "\u00e9"};

TEST(LlamaTokenizer, MergesPairsByScore) {
  const Tokenizer small = parse_llama_tokenizer(tokenizer_bin(kPieces), "tokenizer.bin");
  EXPECT_EQ(small.size(), 269);
  EXPECT_EQ(small.start(), 1);
  EXPECT_EQ(small.end(), 2);
  const int32_t he = 259, ll = 260, hell_after_blank = 261, blank = 263, l = 266, o = 267, e_acute = 268;
  EXPECT_EQ(small.encode("hell"), (Ids{hell_after_blank})) << "a blank comes before every text";
  EXPECT_EQ(small.encode("hello hell"), (Ids{hell_after_blank, o, hell_after_blank}));
  EXPECT_EQ(small.encode("lll"), (Ids{blank, ll, l})) << "the leftmost of equal pairs";
  EXPECT_EQ(small.encode("he\u00e9x"), (Ids{blank, he, e_acute, 3 + 'x'}));
  EXPECT_EQ(small.encode("\u00e8"), (Ids{blank, 3 + 0xc3, 3 + 0xa8}));
  EXPECT_EQ(small.encode(""), Ids{});
  EXPECT_EQ(small.decode(Ids{1, hell_after_blank, o, 2}), "hello");
  EXPECT_EQ(small.piece(hell_after_blank), " hell");
  EXPECT_EQ(small.piece(3), string(1, '\0'));
  EXPECT_EQ(small.piece(1), "");
  EXPECT_EQ(small.piece(0), "<unk>");
  expect_round_trips(small);
  expect_comes_back(small);
  expect_round_trips(parse_llama_tokenizer(tokenizer_bin({}), "tokenizer.bin"));
}

// The way of llama2.c: find the pair of neighbours whose piece has the highest score, the leftmost of equal ones; merge
// it; begin again.
Texts merged_plainly(Texts texts, const std::map<string, float>& scores) {
  for (;;) {
    std::optional<size_t> best;
    const auto score = [&](size_t i) { return scores.find(texts[i] + texts[i + 1]); };
    for (size_t i = 0; i + 1 < texts.size(); ++i)
      if (score(i) != scores.end() && (!best || score(i)->second > score(*best)->second)) best = i;
    if (!best) return texts;
    texts[*best] += texts[*best + 1];
    texts.erase(texts.begin() + int64_t(*best) + 1);
  }
}

TEST(LlamaTokenizer, EqualsThePlainLoopOnRandomPieces) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::map<string, float> scores{{" ", -9.f}, {"a", -9.f}, {"b", -9.f}, {"c", -9.f}};
    while (scores.size() < 24) {
      string piece;
      for (size_t n = 2 + random() % 4; n > 0; --n) piece += " abc"[random() % 4];
      scores[piece] = -float(random() % 8);  // some are equal
    }
    string content = tokenizer_bin({});
    for (const auto& [piece, score] : scores) content += piece_record(piece, score);
    const Tokenizer tokenizer = parse_llama_tokenizer(content, "tokenizer.bin");
    for (int i = 0; i < 50; ++i) {
      Texts letters{" "};
      string text;
      for (size_t n = 1 + random() % 30; n > 0; --n) letters.push_back({" abc"[random() % 4]}), text += letters.back();
      Texts pieces;
      for (const int32_t id : tokenizer.encode(text)) pieces.push_back(tokenizer.piece(id));
      EXPECT_EQ(pieces, merged_plainly(letters, scores)) << text;
    }
  }
}

TEST(LlamaTokenizer, DamagedFilesAreRefused) {
  const Reader read = [](const string& content) { parse_llama_tokenizer(content, "tok.bin"); };
  const string start = bytes_of(int32_t(8)), whole = tokenizer_bin(kPieces);
  string other_byte = tokenizer_bin({});
  other_byte.replace(other_byte.find("<0x41>"), 6, "<0x42>");
  expect_refused(read,
                 {{"", "`tok.bin` has no usable tokenizer: it does not begin with the length of its longest piece"},
                  {"abc", "does not begin with"},
                  {bytes_of(int32_t(-1)) + first_records(), "does not begin with"},
                  {start, "it has 0 pieces, and needs 259"},
                  {start + piece_record("<unk>", 0), "it has 1 pieces"},
                  {start + "abc", "it ends within piece 0"},
                  {start + bytes_of(0.f) + bytes_of(int32_t(8)) + "abc", "it ends within piece 0, of 8 bytes"},
                  {start + bytes_of(0.f) + bytes_of(int32_t(9)) + "abc", "a length of 9 bytes, and the longest has 8"},
                  {start + bytes_of(0.f) + bytes_of(int32_t(-9)) + "abc", "a length of -9 bytes"},
                  {bytes_of(INT32_MAX) + bytes_of(0.f) + bytes_of(INT32_MAX) + "abc", "it ends within piece 0"},
                  {other_byte, "its piece 68 is `<0x42>`, and should be <0x41>"},
                  {tokenizer_bin({"a", "a"}), "it has the piece `a` twice"},
                  {tokenizer_bin({""}), "its piece 259, ``, is empty"},
                  {tokenizer_bin({"\xff"}), "its piece 259, `\\xff`, is not UTF-8"},
                  {tokenizer_bin({}) + piece_record("a", NAN), "its piece 259, `a`, has no finite score"}});
  for (size_t n = 0; n < whole.size(); n += 1) {
    const string said = refusal(read, whole.substr(0, n));
    EXPECT_TRUE(!said.empty() || n >= tokenizer_bin({}).size()) << n << " bytes";
  }
  string end = whole.substr(tokenizer_bin({}).size());
  refused_bit_flips([&](const string& content) { read(tokenizer_bin({}) + content); }, end);
}

TEST(Tokenizer, OfAnyKindIsParsedStrictly) {
  const Reader read = [](const string& text) { parse_tokenizer(text, "a.safetensors"); };
  expect_refused(read, {{R"({"tokenizer":"gpt2"})", "it has no list of `pieces`"},
                        {R"({"tokenizer":"gpt2","pieces":["a",1],"merges":[]})", "its `pieces` are not all texts"},
                        {R"({"tokenizer":"gpt2","pieces":["a","a"],"merges":[]})", "it has the piece `a` twice"},
                        {R"({"tokenizer":"gpt2","pieces":["a"],"merges":[]})", "no piece for the byte 0x00"},
                        {R"({"tokenizer":"llama","pieces":["a"],"scores":[]})", "not one of `scores` for each"},
                        {R"({"tokenizer":"llama","pieces":["a"],"scores":["b"]})", "not all numbers"},
                        {R"({"tokenizer":"llama","pieces":["a"],"scores":[1]})", "it has 1 pieces"}});
}

TEST(LlamaTokenizer, GivesTheKnownEncodings) {
  const auto path = test_data("tinyllama/tok512.bin");
  if (!path) GTEST_SKIP() << "tinyllama is not in the folder that CARAVAN_TEST_DATA names";
  const Tokenizer llama = read_llama_tokenizer(*path);
  EXPECT_EQ(llama.size(), 512);
  const std::pair<string, Ids> rows[] = {
      {"Once upon a time", {403, 407, 261, 378}},
      {"Once upon a time, there was a little girl named Lily.",
       {403, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426}},
      {"a", {261}},
      {" a", {410, 261}},
      {"\n\nZo\u00eb's  cat \u2014 10 \u20ac",
       {410, 13, 13, 469, 414, 198, 174, 439, 419, 410, 280, 294, 410, 481, 410, 475, 477, 410, 503}},
      {"\u6f22", {410, 233, 191, 165}},
      {"\U0001f600 <s>", {410, 243, 162, 155, 131, 410, 504, 419, 505}},
  };
  for (const auto& [text, ids] : rows) EXPECT_EQ(llama.encode(text), ids) << text;
  expect_round_trips(llama);
  expect_comes_back(llama);
}

}  // namespace
}  // namespace caravan::data
