// Recipes as a user runs them: with data and without, stopped and continued, saved, evaluated and drawn.
#include <gtest/gtest.h>

#ifdef CARAVAN_COMMAND
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "caravan/data/digits.h"
#include "caravan/data/idx.h"
#include "caravan/data/safetensors.h"
#include "caravan/data/sha256.h"
#include "caravan/plot/words.h"
#include "command.h"

namespace {

using namespace caravan;

const Arguments kRecipes = {"linear", "moons",     "multiply-small", "multiply-large",
                            "circle", "mnist-mlp", "mnist-conv",     "mnist-autoencoder"};
bool needs_data(const string& recipe) { return recipe.starts_with("mnist"); }

class Recipes : public Command {
 protected:
  void SetUp() override {
    Command::SetUp();
    if (data_.empty()) data_ = digits(300, 120);
  }
  // A folder in MNIST's form: few digits, so that a test is quick.
  static string digits(int64_t train, int64_t test) {
    const string folder = scratch_ + "/digits" + std::to_string(train);
    std::filesystem::create_directories(folder);
    const data::Digits drawn = data::drawn_digits(train, test, 5);
    data::write_idx(folder + "/train-images-idx3-ubyte",
                    drawn.train.images.reshaped(parse_shape(std::to_string(train) + "|28,28")));
    data::write_idx(folder + "/train-labels-idx1-ubyte", drawn.train.labels);
    data::write_idx(folder + "/t10k-images-idx3-ubyte",
                    drawn.test.images.reshaped(parse_shape(std::to_string(test) + "|28,28")));
    data::write_idx(folder + "/t10k-labels-idx1-ubyte", drawn.test.labels);
    return folder;
  }
  Arguments train(const string& recipe, const Arguments& more = {}) const {
    Arguments out = {"train", recipe};
    if (needs_data(recipe)) out.insert(out.end(), {"--data", data_});
    if (recipe == "mnist-conv") out.insert(out.end(), {"--batch", "7"});  // its steps are long
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  void expect_refused(const Arguments& arguments, const string& phrase) const {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << joined(arguments) << o.err;
    EXPECT_CONTAINS(o.err, phrase);
    EXPECT_EQ(o.out, "") << joined(arguments);
  }
  static void expect_narrow(const string& text, int64_t width) {
    std::istringstream lines(text);
    for (string line; std::getline(lines, line);) EXPECT_LE(plot::columns(line), width) << line;
  }
  string file(const string& name) const { return content(folder_ + "/" + name); }
  // Whole, and stopped at each of the steps.
  void expect_continued(const string& recipe, const Arguments& more, const Arguments& stops,
                        const string& steps) const {
    auto with = [&](Arguments rest) {
      rest.insert(rest.end(), {"--quiet", "--json"});
      return rest;
    };
    Arguments asked = more;
    asked.insert(asked.end(), {"--steps", steps});
    Arguments whole = asked;
    whole.insert(whole.end(), {"--save", "whole"});
    const Outcome expected = good(train(recipe, with(whole)));
    for (size_t i = 0; i < stops.size(); ++i) {
      Arguments part = i == 0 ? asked : Arguments{"--resume", "part", "--threads", "1"};
      part.insert(part.end(), {"--save", "part", "--until", stops[i]});
      good(train(recipe, with(part)));
      EXPECT_NE(file("part"), file("whole")) << stops[i];
    }
    const Outcome ended = good(train(recipe, with({"--resume", "part", "--save", "part"})));
    EXPECT_EQ(file("part"), file("whole")) << recipe << joined(more) << " is not the same after a stop";
    for (const char* key :
         {"loss", "epoch_loss", "curve", "test_accuracy", "mean_absolute_error", "steps", "epoch_accuracies"})
      EXPECT_EQ(field(ended.out, key), field(expected.out, key)) << recipe << " " << key;
  }

  static inline string data_;
};

TEST_F(Recipes, EachRunsWithNoDataAtAll) {
  for (const string& recipe : kRecipes) {
    const Outcome json = good({"train", recipe, "--steps", "3", "--json"});
    EXPECT_EQ(json.out.find('\n'), json.out.size() - 1) << "JSON and nothing else";
    EXPECT_EQ(field(json.out, "recipe"), "\"" + recipe + "\"");
    EXPECT_EQ(field(json.out, "steps"), "3");
    EXPECT_CONTAINS(json.out, "\"curve\":[{\"step\":");
    const Outcome o = good({"train", recipe, "--steps", "3"});
    for (const char* key : {"\ndata     ", "\nmodel    ", "\ntraining 3 steps of ", "\ndevice   cpu, ",
                            "\nspeed    3 steps in ", "\nresult   ", "\nnext     caravan train "})
      EXPECT_CONTAINS(o.out, key);
    EXPECT_CONTAINS(o.out, ", loss ");
    expect_narrow(o.out, 80);
    if (!needs_data(recipe)) continue;
    EXPECT_EQ(o.err,
              "caravan: mnist is not here, so drawn digits stand in for it; `caravan data get mnist` fetches it.\n");
    EXPECT_EQ(field(json.out, "stand_in"), "true");
    EXPECT_CONTAINS(o.out, "recall");
    EXPECT_CONTAINS(o.out, "truth ");
  }
}

TEST_F(Recipes, GoingOnIsNeverHavingStopped) {
  for (const string& recipe : kRecipes) {
    const bool conv = recipe == "mnist-conv";
    expect_continued(recipe, {}, conv ? Arguments{"1", "44"} : Arguments{"1", "44", "170"}, conv ? "50" : "403");
  }
}

TEST_F(Recipes, GoingOnIsExactWithEveryOptimizer) {
  for (const char* optimizer : {"sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop", "lion"}) {
    expect_continued("moons", {"--optimizer", optimizer, "--lr", "0.003"}, {"79"}, "161");
  }
  for (const char* optimizer : {"nesterov", "adamw"})  // of data in files, with loops that threads share
    expect_continued("mnist-mlp", {"--optimizer", optimizer, "--lr", "0.0005", "--batch", "11"}, {"13"}, "40");
}

TEST_F(Recipes, AFinishedRunMayGoOnFurther) {
  good(train("moons", {"--epochs", "2", "--save", "two", "--quiet"}));
  EXPECT_EQ(field(good(train("moons", {"--epochs", "5", "--resume", "two", "--json"})).out, "steps"), "400");
  EXPECT_CONTAINS(good(train("moons", {"--epochs", "5", "--resume", "two"})).out,
                  "from     step 160 of 400, as two has it");
  expect_refused(train("moons", {"--epochs", "1", "--resume", "two"}), "two has done 160 steps, which is more than 80");
}

TEST_F(Recipes, CtrlCSavesAndTheRunGoesOn) {
  for (const bool asked : {true, false}) {
    Arguments begun = {CARAVAN_COMMAND, "train", "moons", "--epochs", "1000000", "--quiet"};
    if (asked) begun.insert(begun.end(), {"--save", "deep/it's stopped"});
    const pid_t child = start(begun);
    wait_until_caught(child, SIGINT);
    kill(child, SIGINT);
    const Outcome o = ended(child);
    EXPECT_EQ(o.code, 130) << o.err;
    string path = "deep/it's stopped", typed = "'deep/it'\\''s stopped'";
    if (!asked) {
      std::smatch found;
      ASSERT_TRUE(std::regex_search(o.err, found, std::regex("--resume (\\S+) "))) << o.err;
      path = typed = found[1];
      EXPECT_TRUE(path.starts_with(folder_ + "/.local/state/caravan/runs/moons-")) << path;
    }
    EXPECT_CONTAINS(o.err, "to go on: caravan train moons --resume " + typed + " --save " + typed + "\n");
    const data::Tensors saved = data::read_safetensors(asked ? folder_ + "/" + path : path);
    const int64_t step = std::stoll(saved.metadata.at("step"));
    ASSERT_GT(step, 0);
    const string until = std::to_string(step + 100);
    good(train("moons", {"--resume", path, "--until", until, "--save", "after", "--quiet"}));
    good(train("moons", {"--epochs", "1000000", "--until", until, "--save", "never", "--quiet"}));
    EXPECT_EQ(file("after"), file("never"));
  }
}

TEST_F(Recipes, EvaluatingGivesWhatTrainingGave) {
  const char* keys[] = {"test_accuracy", "mean_absolute_error", "train_accuracy", "w", "reconstruction_error"};
  for (const string& recipe : kRecipes) {
    const Outcome trained = good(train(recipe, {"--steps", "40", "--save", "model", "--quiet", "--json"}));
    Arguments evaluate = {"eval", "model", "--json", "--threads", "1"};
    if (needs_data(recipe)) evaluate.insert(evaluate.end(), {"--data", data_});
    const Outcome o = good(evaluate);
    EXPECT_EQ(o.out.find('\n'), o.out.size() - 1) << "JSON and nothing else";
    for (const char* key : keys) EXPECT_EQ(field(o.out, key), field(trained.out, key)) << recipe << " " << key;
    evaluate.erase(std::find(evaluate.begin(), evaluate.end(), "--json"));
    const string text = good(evaluate).out;
    EXPECT_CONTAINS(text, recipe + ", 40 of 40 steps");
    EXPECT_CONTAINS(text, "\nresult   ");
    expect_narrow(text, 80);
  }
}

TEST_F(Recipes, WhatDivergesReplacesNothing) {
  good(train("linear", {"--save", "line", "--quiet"}));
  const string before = file("line");
  const Outcome o = run(train("linear", {"--lr", "1000", "--save", "line", "--quiet"}));
  EXPECT_EQ(o.code, 1);
  EXPECT_CONTAINS(o.err, "training diverged");
  EXPECT_CONTAINS(o.err, "It was not saved; `line` is what it was before the run.");
  EXPECT_EQ(file("line"), before);
}

TEST_F(Recipes, ALinkStaysAndNoOtherThingIsReplaced) {
  std::filesystem::create_directory(folder_ + "/elsewhere");
  std::filesystem::create_symlink("elsewhere/model", folder_ + "/link");
  good(train("linear", {"--steps", "3", "--save", "elsewhere/model", "--quiet"}));
  good(train("linear", {"--steps", "5", "--save", "link", "--quiet"}));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ + "/link"));
  EXPECT_EQ(data::read_safetensors(folder_ + "/elsewhere/model").metadata.at("step"), "5");
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  expect_refused(train("linear", {"--save", "pipe"}), "--save `pipe` is not a file that can be replaced");
}

TEST_F(Recipes, ARunOnDrawnDigitsGoesOnWithThem) {
  good({"train", "mnist-mlp", "--steps", "3", "--until", "1", "--save", "drawn", "--quiet"});
  std::filesystem::create_directories(folder_ + "/.cache/caravan/data");
  std::filesystem::copy(data_, folder_ + "/.cache/caravan/data/mnist");  // fetched meanwhile
  const Outcome o = good({"train", "mnist-mlp", "--resume", "drawn", "--quiet", "--json"});
  EXPECT_EQ(field(o.out, "data"), "\"drawn digits\"");
  // The digits of this test are not MNIST's, as whoever finds them in a usual place is told.
  const Outcome found = good({"train", "mnist-mlp", "--steps", "1", "--quiet", "--json"});
  EXPECT_EQ(field(found.out, "stand_in"), "true");
  EXPECT_NE(found.err.find("has other data than mnist (the checksums differ)"), string::npos) << found.err;
  const Outcome given = good({"train", "mnist-mlp", "--steps", "1", "--quiet", "--json", "--data", data_});
  EXPECT_EQ(field(given.out, "stand_in"), "false");
  EXPECT_EQ(given.err, "");
}

TEST_F(Recipes, EveryPartIsExported) {
  const std::map<string, Arguments> parts = {
      {"mnist-autoencoder", {"classifier", "encoder", "decoder", "autoencoder"}}};
  for (const string& recipe : kRecipes) {
    good(train(recipe, {"--steps", "1", "--save", "model", "--quiet"}));
    const auto named = parts.find(recipe);
    for (const string& part : named == parts.end() ? Arguments{""} : named->second) {
      Arguments wanted = {"export", "model", "--c", "out.c", "--safetensors", "out.safetensors"};
      if (!part.empty()) wanted.insert(wanted.end(), {"--part", part});
      good(wanted);
      EXPECT_FALSE(data::read_safetensors(folder_ + "/out.safetensors").list.empty()) << recipe << part;
    }
  }
}

TEST_F(Recipes, ThePapersRunHasItsAccuraciesBeside) {
  const Outcome o = good(train("mnist-mlp", {"--paper"}));
  EXPECT_CONTAINS(o.out, "% on the test images; the paper has 83.00 %");
  EXPECT_CONTAINS(o.out, "epoch 2: ");
  EXPECT_CONTAINS(o.out, "; the paper does not say");
  EXPECT_CONTAINS(o.out, "the paper has 93.24 %");
  EXPECT_CONTAINS(o.out, "training 1500 steps (5 epochs) of 1 image, sgd, rate 0.0001\n");
}

TEST_F(Recipes, DrawsWhatItFinds) {
  const std::map<string, Arguments> pictures = {
      {"linear", {"line.svg"}},
      {"multiply-small", {"surface.svg"}},
      {"circle", {"predictions.svg", "confusion.svg"}},
      {"mnist-conv", {"samples.png", "misread.png", "confusion.svg"}},
      {"mnist-autoencoder", {"samples.png", "interpolation.png", "reconstructions.png", "imagined.png"}}};
  for (const auto& [recipe, files] : pictures) {
    good(train(recipe, {"--steps", "2", "--quiet", "--plot", "pictures"}));
    for (const char* common : {"loss.svg", "log_loss.svg", "learning_rate.svg"})
      EXPECT_TRUE(exists(folder_ + "/pictures/" + common));
    for (const string& name : files)
      EXPECT_TRUE(file("pictures/" + name).starts_with(name.ends_with("png") ? "\x89PNG\r\n" : "<svg"))
          << recipe << " " << name;
  }
}

TEST_F(Recipes, LearnInSeconds) {
  EXPECT_LE(number(good({"train", "multiply-large", "--quiet", "--json"}).out, "mean_absolute_error"), 0.02);
  EXPECT_GE(number(good({"train", "circle", "--quiet", "--json"}).out, "test_accuracy"), 0.99);
  EXPECT_GE(number(good({"train", "mnist-mlp", "--epochs", "1", "--quiet", "--json"}).out, "test_accuracy"), 0.93);
}

TEST_F(Recipes, RefuseWhatDoesNotFit) {
  good(train("moons", {"--steps", "10", "--save", "moons", "--quiet"}));
  expect_refused(train("linear", {"--resume", "moons"}),
                 "moons is of the recipe moons: `caravan train moons --resume moons` continues it");
  expect_refused(train("moons", {"--resume", "moons", "--batch", "20"}), "was begun with --batch 10");
  expect_refused(train("moons", {"--resume", "moons", "--lr", "3"}), "was begun with --lr 0.1");
  expect_refused(train("moons", {"--resume", "moons", "--seed", "3"}), "was begun with --seed 1");
  expect_refused(train("moons", {"--resume", "moons", "--optimizer", "adam"}), "was begun with --optimizer sgd");
  expect_refused(train("moons", {"--resume", "moons", "--until", "5"}),
                 "--until is 5; it must be a step from 10 to 10");
  expect_refused(train("moons", {"--resume", "none"}), "none");
  expect_refused(train("moons", {"--optimizer", "magic"}), "no optimizer `magic`; there are: sgd, momentum");
  expect_refused(train("moons", {"--save", "/dev/null/x"}), "--save");
  expect_refused(train("mnist-mlp", {"--batch", "301"}), "--batch 301 is more than the 300 images");
  expect_refused({"train", "mnist-mlp", "--data", folder_}, "mnist");
  expect_refused(train("moons", {"--save", "a", "--trace", "./a"}), "`./a` cannot be two files at once");
  expect_refused(train("moons", {"--resume", ""}), "--resume: it is empty");
  expect_refused(train("mnist-mlp", {"--paper", "--batch", "64"}),
                 "--paper is one image at a time, sgd and the rate 0.0001");
  expect_refused(train("mnist-mlp", {"--paper", "--lr", "0.1"}), "leave out --batch, --lr and --optimizer");
  good(train("mnist-mlp", {"--steps", "2", "--save", "digits", "--quiet"}));
  expect_refused(
      {"train", "mnist-mlp", "--resume", "digits", "--data", digits(301, 120)},
      "digits was begun with the data of " + data_ + ", and that of " + scratch_ + "/digits301 is other data");
  std::filesystem::copy(data_, folder_ + "/moved");
  good({"train", "mnist-mlp", "--resume", "digits", "--data", "moved", "--steps", "4", "--quiet"});

  data::Tensors tensors = data::read_safetensors(folder_ + "/moons");
  auto changed = [&](const auto& change) {
    data::Tensors copy = tensors;
    change(copy);
    const bool summed = copy.metadata.erase("sha256") > 0;  // as a program that knows how would write it
    if (summed) copy.metadata["sha256"] = data::sha256(data::safetensors_content(copy));
    data::write_safetensors(folder_ + "/changed", copy);
    return Arguments{"train", "moons", "--resume", "changed", "--plot", "pictures"};
  };
  expect_refused(changed([](data::Tensors& t) {
                   t.list["w9"] = t.list.at("w1");
                   t.list.erase("b1");
                   t.list["w3"] = t.list.at("w1");
                 }),
                 "missing (1): b1\n  unexpected (1): w9\n  misshapen: w3 is f32 [16, 2], the program has f32 [1, 16]");
  expect_refused(changed([](data::Tensors& t) { t.metadata.clear(); }), "its metadata has no `format`");
  expect_refused(changed([](data::Tensors& t) { t.metadata["step"] = "many"; }), "its `step` is `many`");
  expect_refused(changed([](data::Tensors& t) { t.metadata["steps"] = "0"; }), "its `steps` is 0");
  expect_refused(changed([](data::Tensors& t) { t.metadata["recipe"] = "venus"; }), "no recipe `venus`");
  expect_refused(changed([](data::Tensors& t) { t.list.erase("run/sums"); }), "it has no `run/sums`");
  EXPECT_FALSE(exists(folder_ + "/pictures"));

  const string whole = file("moons");
  for (size_t bit = 5; bit < 8 * whole.size(); bit += 1301) {
    string flipped = whole;
    flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << bit % 8));
    std::ofstream(folder_ + "/flipped", std::ios::binary) << flipped;
    const Outcome o = run({"eval", "flipped"});
    ASSERT_EQ(o.code, 2) << bit << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
  for (size_t size = 0; size < whole.size(); size += 97) {
    std::ofstream(folder_ + "/cut", std::ios::binary) << whole.substr(0, size);
    const Outcome o = run({"eval", "cut"});
    ASSERT_EQ(o.code, 2) << size;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
}

TEST_F(Recipes, DamagedDataIsOneSentence) {
  const string folder = folder_ + "/damaged";
  std::filesystem::copy(data_, folder);
  const string path = folder + "/train-images-idx3-ubyte", whole = content(path);
  auto refused = [&](const string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const Outcome o = run({"train", "mnist-mlp", "--data", folder, "--plot", "pictures", "--save", "model"});
    EXPECT_EQ(o.code, 2);
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_CONTAINS(o.err, "train-images-idx3-ubyte");
    EXPECT_FALSE(exists(folder_ + "/pictures") || exists(folder_ + "/model"));
  };
  refused(whole.substr(0, whole.size() / 2));
  refused(whole.substr(0, 3));
  refused("");
  refused(whole + "x");
  string bytes = whole;
  bytes[3] = 9;
  refused(bytes);
  bytes = whole;
  bytes[4] = '\x7f';  // two thousand million images
  refused(bytes);
}

}  // namespace
#endif
