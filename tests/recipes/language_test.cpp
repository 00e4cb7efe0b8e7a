// Language models as a user trains them and writes with them: small lists of names and a short text of the test's own.
#include <gtest/gtest.h>

#ifdef CARAVAN_COMMAND
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "caravan/data/safetensors.h"
#include "caravan/data/sha256.h"
#include "command.h"

namespace {

using namespace caravan;

const Arguments kNames = {"names-bigram", "names-mlp", "names-mlp-bn", "names-wavenet", "names-transformer"};

class Language : public Command {
 protected:
  void SetUp() override {
    Command::SetUp();
    if (!data_.empty()) return;
    data_ = scratch_ + "/data";
    std::filesystem::create_directories(data_ + "/names");
    std::filesystem::create_directories(data_ + "/text");
    std::ofstream names(data_ + "/names/names.txt"), text(data_ + "/text/tinyshakespeare.txt");
    for (const char* first : {"an", "be", "da", "el", "jo", "ma", "sa", "ti"})
      for (const char* second : {"la", "na", "ri", "to", "mi"})
        for (const char* third : {"", "n", "s", "ra"}) names << first << second << third << '\n';
    for (int i = 0; i < 60; ++i)
      text << (i % 3 == 0 ? "FIRST:\nThe river runs.\n" : i % 3 == 1 ? "SECOND:\nSo it does!\n" : "FIRST:\nAlways?\n");
  }
  void expect_refused(const Arguments& arguments, const string& phrase) const {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << joined(arguments) << o.err;
    EXPECT_CONTAINS(o.err, phrase);
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << "one sentence: " << o.err;
    EXPECT_EQ(o.out, "") << joined(arguments);
  }
  Arguments train(const string& recipe, const Arguments& more) const {
    Arguments out = {"train", recipe, "--data", data_};
    if (recipe != "shakespeare-gpt")
      out.insert(out.end(), {"--batch", "16"});
    else
      out.insert(out.end(), {"--batch", "4"});
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  // A model that has learned a little, trained once for all tests; names with pictures beside, NAME.pictures.
  string trained(const string& recipe) const {
    const string path = scratch_ + "/" + recipe;
    if (exists(path)) return path;
    Arguments more = {"--json", "--save", path, "--steps", "3"};
    if (recipe != "shakespeare-gpt") more.back() = "120", more.insert(more.end(), {"--plot", path + ".pictures"});
    said_[recipe] = good(train(recipe, more)).out;
    return path;
  }
  string file(const string& name) const { return content(folder_ + "/" + name); }

  static inline string data_;
  static inline std::map<string, string> said_;  // the JSON of each trained model's run
};

TEST_F(Language, EachModelOfNamesLearnsAndWrites) {
  for (const string& recipe : kNames) {
    const string model = trained(recipe), said = said_[recipe];
    EXPECT_LT(number(said, "dev_nll"), 2.4) << recipe << ": 12 letters at random have 2.5";
    EXPECT_LT(number(said, "train_nll"), 2.4) << recipe;
    EXPECT_CONTAINS(said, "\"test_nll\":");
    EXPECT_CONTAINS(said, "\"epoch_nlls\":[");
    EXPECT_CONTAINS(said, "\"samples\":[");
    const Outcome again = good({"eval", model, "--data", data_, "--json"});
    for (const char* key : {"dev_nll", "test_nll", "train_nll", "samples"})
      EXPECT_EQ(field(again.out, key), field(said, key)) << recipe << " " << key;
  }
}

TEST_F(Language, GoingOnIsNeverHavingStopped) {
  Arguments all = kNames;
  all.push_back("shakespeare-gpt");
  for (const string& recipe : all) {
    good(train(recipe, {"--steps", "4", "--save", "whole", "--quiet"}));
    good(train(recipe, {"--steps", "4", "--until", "2", "--save", "part", "--quiet"}));
    EXPECT_NE(file("part"), file("whole")) << recipe;
    good(train(recipe, {"--resume", "part", "--save", "part", "--quiet", "--threads", "1"}));
    EXPECT_EQ(file("part"), file("whole")) << recipe << " is not the same after a stop";
  }
}

TEST_F(Language, PicturesShowWhatEachModelHasLearned) {
  const std::pair<const char*, Arguments> rows[] = {
      {"names-bigram", {"nll.svg", "bigrams.svg"}},
      {"names-mlp", {"activations.svg", "gradients.svg", "embedding.svg"}},
      {"names-mlp-bn", {"activations.svg", "gradients.svg", "embedding.svg"}},
      {"names-transformer", {"attention1.svg", "attention4.svg", "embedding.svg"}}};
  for (const auto& [recipe, pictures] : rows) {
    for (const string& picture : pictures) {
      const string svg = content(trained(recipe) + ".pictures/" + picture);
      EXPECT_CONTAINS(svg, "<svg");
      EXPECT_EQ(svg.find("nan"), string::npos) << recipe << " " << picture;
    }
  }
  const string bigrams = content(trained("names-bigram") + ".pictures/bigrams.svg");
  EXPECT_CONTAINS(bigrams, ">␣<");
  EXPECT_CONTAINS(content(trained("names-mlp-bn") + ".pictures/activations.svg"), "at the first step");
}

TEST_F(Language, SampleNeedsTheFileAlone) {
  const string model = trained("names-mlp");
  const Outcome names = good({"sample", model, "--count", "6", "--seed", "3"});
  EXPECT_EQ(std::count(names.out.begin(), names.out.end(), '\n'), 6) << names.out;
  EXPECT_EQ(good({"sample", model, "--count", "6", "--seed", "3"}).out, names.out) << "the same seed";
  EXPECT_NE(good({"sample", model, "--count", "6", "--seed", "4"}).out, names.out) << "another seed";
  EXPECT_EQ(good({"sample", model, "--count", "2", "--seed", "3"}).out,
            names.out.substr(0, names.out.find('\n', names.out.find('\n') + 1) + 1))
      << "a name does not depend on how many follow";
  const Outcome twenty = good({"sample", model});
  EXPECT_EQ(std::count(twenty.out.begin(), twenty.out.end(), '\n'), 20);
  const Outcome prompted = good({"sample", model, "--prompt", "belan", "--count", "1", "--tokens", "4"});
  EXPECT_EQ(prompted.out.substr(0, 5), "belan");
  EXPECT_LE(prompted.out.size(), 10u);
  const Outcome greedy = good({"sample", model, "--temperature", "0", "--count", "2"});
  EXPECT_EQ(greedy.out.substr(0, greedy.out.size() / 2), greedy.out.substr(greedy.out.size() / 2));
  EXPECT_EQ(good({"sample", model, "--top-k", "1", "--count", "2"}).out, greedy.out);
  const Outcome json = good({"sample", model, "--count", "2", "--json", "--top-p", "0.9"});
  EXPECT_EQ(json.out.find('\n'), json.out.size() - 1) << "JSON and nothing else";
  EXPECT_EQ(field(json.out, "recipe"), "\"names-mlp\"");
  EXPECT_CONTAINS(json.out, "\"texts\":[\"");
  const Outcome interpreted = good({"sample", model, "--count", "6", "--seed", "3", "--device", "interp"});
  EXPECT_EQ(interpreted.out, names.out) << "the interpreter writes the same names";
}

// Of a model without memory, with a window and with caches; a verse is longer than its caches.
TEST_F(Language, ExportedCWritesTheSameTexts) {
  if (run_program({"/bin/sh", "-c", "command -v cc"}).code != 0) GTEST_SKIP() << "there is no C compiler `cc` here";
  for (const string recipe : {"names-bigram", "names-mlp", "names-transformer", "shakespeare-gpt"}) {
    const string model = trained(recipe);
    good({"export", model, "--c", "text.c", "--quiet"});
    const Outcome built =
        run_program({"/bin/sh", "-c", "cc -std=c99 -Wall -Wextra -Werror -DTEXT_MAIN text.c -o text -lm"});
    ASSERT_EQ(built.code, 0) << recipe << built.err;
    const Arguments numbers = {"7", recipe == "shakespeare-gpt" ? "1" : "12", "0.8", "90"};
    EXPECT_EQ(run_program({"./text", numbers[0], numbers[1], numbers[2], numbers[3]}).out,
              good({"sample", model, "--seed", numbers[0], "--count", numbers[1], "--temperature", numbers[2],
                    "--tokens", numbers[3]})
                  .out)
        << recipe;
    if (recipe != "names-mlp") continue;
    EXPECT_EQ(run_program({"./text"}).out, good({"sample", model}).out) << "20 names";
  }
  EXPECT_EQ(run_program({"./text", "x"}).code, 2);
  EXPECT_EQ(run_program({"./text", "1", "-2"}).code, 2);
}

TEST_F(Language, ATextGoesOnAsLongAsAsked) {
  const string gpt = trained("shakespeare-gpt");
  const Outcome o = good({"sample", gpt, "--prompt", "FIRST:", "--tokens", "70", "--temperature", "0"});
  EXPECT_EQ(o.out.substr(0, 6), "FIRST:");
  EXPECT_GE(o.out.size(), 76u);
  expect_refused({"sample", gpt, "--prompt", string(65, 'T')},
                 "the prompt has 65 tokens, but the model sees at most 64");
}

TEST_F(Language, WhatCannotBeSampledIsRefusedInOneSentence) {
  const string model = trained("names-transformer");
  good({"train", "moons", "--steps", "2", "--save", "moons", "--quiet"});
  expect_refused({"sample", model, "--prompt", "Zoë"}, "the text has `Z` at byte 0");
  expect_refused({"sample", model, "--prompt", string(16, 'a')}, "the prompt has 16 tokens");
  expect_refused({"sample", "moons"}, "which is no language model; those are: names-bigram,");
  expect_refused({"sample", "absent"}, "absent");
  expect_refused({"sample", model, "--count", "0"}, "--count is 0; it must be at least 1.");
  expect_refused({"sample", model, "--tokens", "-1"}, "--tokens is -1");
  expect_refused({"sample", model, "--temperature", "-1"}, "temperature");
  expect_refused({"sample", model, "--top-p", "0"}, "top_p");
  expect_refused(train("names-mlp", {"--resume", model}), "is of the recipe names-transformer");
}

TEST_F(Language, AFileWithoutItsVocabularyIsRefused) {
  const data::Tensors whole = data::read_safetensors(trained("names-bigram"));
  auto expect_refused_with = [&](const std::optional<string>& vocabulary, const string& phrase) {
    data::Tensors changed = whole;
    changed.metadata.erase("vocabulary"), changed.metadata.erase("sha256");
    if (vocabulary) changed.metadata["vocabulary"] = *vocabulary;
    changed.metadata["sha256"] = data::sha256(data::safetensors_content(changed));
    data::write_safetensors(folder_ + "/changed", changed);
    for (const string command : {"sample", "eval"}) expect_refused({command, "changed"}, phrase);
  };
  const string vocabulary = whole.metadata.at("vocabulary");
  expect_refused_with(std::nullopt, "its metadata has no `vocabulary`");
  expect_refused_with("", "`changed` has no usable tokenizer");
  expect_refused_with(vocabulary.substr(0, 40), "`changed` has no usable tokenizer");
}

// Until format 2 the tables of embeddings and their moments had a column for each id.
TEST_F(Language, AFileOfAnEarlierFormatIsTheSameModel) {
  for (const string recipe : {"names-bigram", "names-transformer"}) {
    const string model = trained(recipe);
    data::Tensors old = data::read_safetensors(model);
    EXPECT_EQ(old.metadata["format"], "caravan recipe 3");
    old.metadata["format"] = "caravan recipe 2", old.metadata.erase("sha256");
    size_t tables = 0;
    for (auto& [name, state] : old.list)
      if (state.sizes.size() == 2 &&
          (name.starts_with("table.") || name.starts_with("tok.") || name.starts_with("pos.")))
        state = data::transposed(state), ++tables;
    EXPECT_GE(tables, recipe == "names-bigram" ? 1u : 6u);  // and moments
    old.metadata["sha256"] = data::sha256(data::safetensors_content(old));
    data::write_safetensors(folder_ + "/old", old);
    EXPECT_EQ(good({"sample", "old", "--seed", "3"}).out, good({"sample", model, "--seed", "3"}).out);
    EXPECT_EQ(number(good({"eval", "old", "--data", data_, "--json"}).out, "dev_nll"),
              number(said_[recipe], "dev_nll"));
    good(train(recipe, {"--resume", "old", "--steps", "121", "--quiet"}));
  }
}

// A name is cut for the pictures of attention, but no letter is.
TEST_F(Language, PicturesOfNamesWithAccents) {
  std::filesystem::create_directories(folder_ + "/accents");
  std::ofstream names(folder_ + "/accents/names.txt");
  const char* const letters[] = {"\u00e9", "\u00e0", "\u00e8", "\u00f1", "\u00fc", "\u00f6", "\u00e7", "\u6f22"};
  for (size_t i = 0; i < 20; ++i) {
    for (size_t k = 0; k < 15; ++k) names << letters[(i * k + k * k) % 8];
    names << '\n';
  }
  names.close();
  good({"train", "names-transformer", "--data", "accents", "--batch", "4", "--steps", "2", "--quiet", "--plot", "p"});
  EXPECT_CONTAINS(file("p/attention1.svg"), "\u00e9");
}

TEST_F(Language, AModelOfAWindowSeesTheEndOfAPrompt) {
  const string model = trained("names-mlp");
  const Outcome longer = good({"sample", model, "--prompt", "belan", "--temperature", "0", "--count", "1"});
  EXPECT_EQ(longer.err, "caravan: names-mlp sees 3 tokens, so only the last of the 5 in the prompt count.\n");
  const Outcome end = good({"sample", model, "--prompt", "lan", "--temperature", "0", "--count", "1"});
  EXPECT_EQ(end.err, "");
  EXPECT_EQ(longer.out, "be" + end.out);
}

TEST_F(Language, NarrowProductsLearnNearlyAsMuch) {
  trained("names-mlp");
  const double wide = number(said_["names-mlp"], "dev_nll");
  const Outcome o = good(train("names-mlp", {"--steps", "120", "--json", "--precision", "bf16", "--save", "narrow"}));
  EXPECT_NEAR(number(o.out, "dev_nll"), wide, 0.02);
  EXPECT_NE(number(o.out, "dev_nll"), wide) << "bf16 rounds";
  EXPECT_CONTAINS(o.out, "products in bf16");
  expect_refused(train("names-mlp", {"--resume", "narrow", "--precision", "f16"}), "was begun with --precision bf16");
  expect_refused(train("names-mlp", {"--precision", "f8"}), "there is no precision `f8`");
}

TEST_F(Language, OptionsOfARecipeStayWithItsFile) {
  good(train("names-bigram", {"--steps", "4", "--l2", "0.5", "--save", "bigram", "--quiet", "--dump", "stages",
                              "--trace", "trace.json"}));
  EXPECT_CONTAINS(file("stages/graph.dot"), "targets");
  expect_refused(train("names-bigram", {"--resume", "bigram", "--l2", "0.1"}), "was begun with --l2 0.5");
  expect_refused(train("names-bigram", {"--l2", "-1"}), "--l2 is -1; it must be 0 or more.");
  expect_refused(train("shakespeare-gpt", {"--size", "huge"}), "no size `huge`");
  const double plain = number(good(train("names-bigram", {"--steps", "100", "--json"})).out, "train_nll");
  const double flat = number(good(train("names-bigram", {"--steps", "100", "--json", "--l2", "10"})).out, "train_nll");
  EXPECT_GT(flat, plain + 0.1) << "the regulariser keeps the table near 0";
}

TEST_F(Language, WithoutDataMadeUpTextsStandIn) {
  const Outcome o = good({"train", "names-bigram", "--steps", "3"});
  EXPECT_CONTAINS(o.err, "names is not here, so made-up names stand in for it; no package has exactly this one");
  EXPECT_CONTAINS(o.out, "The counts of the train names themselves");
  EXPECT_CONTAINS(o.out, "Samples:");
  expect_refused({"train", "names-mlp", "--data", folder_}, "has neither the files of names");
}

TEST_F(Language, TextsThatCannotBeLearnedAreRefused) {
  std::filesystem::create_directories(folder_ + "/few");
  std::ofstream(folder_ + "/few/names.txt") << "ada\nbob\n";
  expect_refused({"train", "names-mlp", "--data", "few"}, "few has 2 names; at least 10 are needed");
  std::filesystem::create_directories(folder_ + "/long");
  std::ofstream(folder_ + "/long/names.txt") << string(20, 'a') + "\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n";
  expect_refused({"train", "names-transformer", "--data", "long"}, "has 20 ids, and a sequence of 16 has room for 15");
  std::filesystem::create_directories(folder_ + "/empty");
  std::ofstream(folder_ + "/empty/tinyshakespeare.txt") << "";
  expect_refused({"train", "shakespeare-gpt", "--data", "empty"}, "the text of empty is empty.");
  std::ofstream(folder_ + "/empty/tinyshakespeare.txt") << string(500, 'a') << "b";
  expect_refused({"train", "shakespeare-gpt", "--data", "empty"},
                 "the text of empty is too short: its last tenth, by which the model is judged, has 51 characters, and "
                 "65 are needed");
}

}  // namespace
#endif
