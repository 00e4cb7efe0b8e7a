// A recipe is a model with its data and its training step. `train` runs it, `inspect` shows its stages, `eval`,
// `export` and `serve` use the model that came out.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/terminal.h"
#include "caravan/data/places.h"
#include "caravan/data/tokenizer.h"
#include "caravan/runtime/context.h"
#include "caravan/train/optimizer.h"

namespace caravan {
class Generator;
namespace nn {
class Phase;
}
}  // namespace caravan

namespace caravan::app {

// What a user may ask of any recipe; the rest is the recipe's.
struct Wishes {
  std::optional<int64_t> epochs{}, steps{}, batch{};
  std::optional<int64_t> whole_batch{};  // of all devices, if `batch` is the share of one
  std::optional<double> lr{};
  std::optional<std::string> optimizer{};
  bool paper = false;                      // the published set-up, where there is one
  std::optional<double> l2{};              // the weight of a regulariser, where there is one
  std::optional<std::string> size{};       // of the model, where there are several
  std::optional<std::string> precision{};  // of products in training, where there are several
};

struct Request {
  Wishes wishes;
  uint64_t seed = 0;
  data::Places places;       // where data may be
  std::string vocabulary{};  // of a saved language model, as Tokenizer::text() gives it; empty: that of the data
};

struct Schedule {
  int64_t points = 0, batch = 0, steps = 0;
  int64_t report = 0;  // steps of one value of the loss curve: an epoch, or a hundredth of the run
  double lr = 0;
  std::string optimizer;
  double weight_decay = 0;
  uint64_t seed = 0;
  // The last batch of an epoch, if it is not full, is completed with the first points.
  int64_t steps_per_epoch() const { return (points + batch - 1) / batch; }
  bool by_epoch() const { return report == steps_per_epoch(); }
};

// What a recipe calls its examples.
struct Words {
  std::string one = "point", many = "points";
};

// What a recipe does where nothing is wished.
struct Defaults {
  int64_t points = 0, batch = 0, epochs = 0;
  double lr = 0;
  std::string optimizer = "sgd";
  double weight_decay = 0;
  bool by_epoch = false;  // the loss curve has a value for each epoch; otherwise a hundred values
  Words words{};
};
Schedule schedule(const Request& request, const Defaults& defaults);  // ConfigError where a wish cannot be met
Optimizer chosen_optimizer(const Schedule& schedule, const Tensor& lr);
std::span<const std::string> optimizer_names();

struct Picture {
  std::string file, content;  // "confusion.svg"
};
// What a trained model can do.
struct Findings {
  std::map<std::string, double> numbers{};           // for --json
  std::vector<std::string> samples{};                // texts that a language model has written
  std::string result{};                              // in a few words: "97.12 % of 10,000 test images are right"
  std::function<std::string(const Screen&)> text{};  // for a reader: tables, predictions beside the truth
  std::function<std::vector<Picture>()> pictures{};  // drawn when asked for
};

// What tells how good a model is, beside the loss.
struct Measure {
  std::string name{};      // "accuracy"
  std::string on{};        // what it is measured on: "test images"
  std::string each{};      // the values after each epoch, in the JSON: "epoch_accuracies"
  bool in_percent = true;  // it is a part of all, from 0 to 1
  std::string text(double value) const;
  std::string file() const;  // of its curve: "accuracy.svg"
};

// A trained model on one Context, to be looked at. It is made once for a run, and what it compiles it compiles once.
struct Evaluation {
  std::function<double()> measure{};     // of the recipe's Measure, after every epoch; empty: only at the end
  std::function<Findings()> findings{};  // at the end
};

struct Recipe {
  Schedule schedule;
  Tensor loss;      // the mean over a batch
  Program program;  // one training step, which observes the loss, and `right` if there is one
  Index batch, step;
  Tensor lr;                 // of `step`
  std::string model{};       // in a few words: "2-16-16-1 ReLU"
  std::string data{};        // where the points come from; empty: made for this run
  std::string data_sum{};    // a checksum of them, by which a run that goes on knows them again
  bool stand_in = false;     // they are not what the recipe is meant for
  std::string vocabulary{};  // of a language model, for its checkpoints; empty: it is none

  std::function<void(std::ostream&, Context&, const Screen&)> before{};  // the first step
  std::function<Evaluation(Context&)> evaluate{};
  // The part of the batch that the model answers right, before the step has learned from it. Undefined: the recipe has
  // no right answers, or another measure of them.
  Tensor right{};
  Tensor evaluated{};                              // has all states that evaluate() reads; undefined: the loss has them
  std::vector<std::optional<double>> published{};  // the measure after each epoch elsewhere

  IndexValues at(int64_t s) const { return {{batch, s % schedule.steps_per_epoch()}, {step, s}}; }
};

// A model as a function of one input, without its data: what is exported and served.
struct Part {
  struct Layer {
    std::string name;
    Tensor value;
  };
  std::string name;
  Shape input;                                                  // of one example
  std::function<std::vector<Layer>(const Tensor& x)> layers{};  // what each gives; the last is the answer
  bool probabilities = false;                                   // the answer is one for each class
};

// A language model without its data: all that is needed to write text.
struct Language {
  data::Tokenizer tokenizer;
  std::string prompt{};             // where none is given
  data::Ids first{};                // what the model sees before every prompt
  std::optional<int32_t> end{};     // what ends a text; none: a text goes on
  bool names = false;               // texts are short, one a line
  bool blank_first = false;         // the first piece of a text begins with a blank that is not part of it
  int64_t longest = 0;              // prompt, in tokens; 0: any, because the model sees its last tokens alone
  int64_t window = 0;               // how many of the last tokens such a model sees
  int64_t count = 1, tokens = 500;  // how many texts are written, and of how many tokens at most, where it is not said
  Tensor called{};                  // the model, called once, so that a Context has its states
  std::function<Generator(const Context&)> generator{};  // reads the states of that Context
  // Logits of the token that follows one token, in a decoding phase; empty: it cannot be exported.
  std::function<Tensor(const Tensor& id, const nn::Phase& phase)> step{};
  int64_t capacity = 0;  // of the caches of `step`, in tokens; 0: it has none
};

struct RecipeRow {
  std::string name, doc;
  Defaults defaults;
  std::string lr_doc{};              // what the rate means
  std::string batch_doc{};           // what the size of the batch decides besides; empty: nothing
  std::string data{};                // the data set it needs; empty: none
  Measure measure{};                 // without a name: there is none
  std::string paper_doc{};           // empty: there is no published set-up
  std::string l2_doc{};              // empty: there is no regulariser
  std::vector<std::string> sizes{};  // that the model may have, the first where none is wished; empty: it has one
  std::vector<std::string>
      precisions{};    // of products in training, the first where none is wished; empty: there is one
  std::string next{};  // a command that takes the saved model, beside eval: "serve"
  Recipe (*make)(const Request& request) = nullptr;
  std::vector<Part> (*parts)(const Request& request) = nullptr;  // the whole model first
  Language (*language)(const Request& request) = nullptr;        // null: it is no language model
};
std::span<const RecipeRow> recipe_rows();
const RecipeRow& find_recipe(const std::string& name);  // ConfigError naming those there are
// For options that were read before the recipe was known. ConfigError if it has no such choice.
void check_choices(const RecipeRow& row, const Wishes& wishes);

std::string stand_in_message(const RecipeRow& row, const Recipe& recipe);  // a line that says how to have the real data
bool is_made(const std::string& data);  // whether that source of points is a program of ours, not a folder

Context interpreted(const Context& ctx);  // the same states, where looking needs no compilation

Recipe linear_recipe(const Request& request);
std::vector<Part> linear_parts(const Request& request);
Recipe moons_recipe(const Request& request);
std::vector<Part> moons_parts(const Request& request);
Recipe multiply_small_recipe(const Request& request);
std::vector<Part> multiply_small_parts(const Request& request);
Recipe multiply_large_recipe(const Request& request);
std::vector<Part> multiply_large_parts(const Request& request);
Recipe circle_recipe(const Request& request);
std::vector<Part> circle_parts(const Request& request);
Recipe mnist_mlp_recipe(const Request& request);
std::vector<Part> mnist_mlp_parts(const Request& request);
Recipe mnist_conv_recipe(const Request& request);
std::vector<Part> mnist_conv_parts(const Request& request);
Recipe mnist_autoencoder_recipe(const Request& request);
std::vector<Part> mnist_autoencoder_parts(const Request& request);

}  // namespace caravan::app
