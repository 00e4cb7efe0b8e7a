#include "apps/recipes/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "apps/figures.h"
#include "apps/recipes/language.h"
#include "apps/recipes/made_text.h"
#include "apps/unknown_name.h"
#include "caravan/base/error.h"
#include "caravan/data/digits.h"

namespace caravan::app {

namespace {

const Measure kAccuracy{"accuracy", "test images", "epoch_accuracies"};
const Measure kDevNll{"NLL", "dev names", "epoch_nlls", false};
const Measure kValidationNll{"NLL", "validation text", "epoch_nlls", false};

const std::vector<std::string> kPrecisions = {"f32", "bf16", "f16"};

// What all recipes of language models have.
RecipeRow of_text(RecipeRow row) {
  if (row.lr_doc.empty())
    row.lr_doc = "Largest learning rate; it rises in the first fiftieth of the steps and falls along a cosine to 0";
  row.next = "sample";
  return row;
}

template <MakeTextModel kMake>
RecipeRow of_names(RecipeRow row) {
  row = of_text(std::move(row));
  row.data = "names";
  row.measure = kDevNll;
  row.make = [](const Request& request) { return names_recipe(kMake, request); };
  row.parts = [](const Request& request) { return names_parts(kMake, request); };
  row.language = [](const Request& request) { return names_language(kMake, request); };
  return row;
}

template <MakeTextModel kMake>
RecipeRow of_shakespeare(RecipeRow row) {
  row = of_text(std::move(row));
  row.data = "tinyshakespeare";
  row.measure = kValidationNll;
  row.make = [](const Request& request) { return text_recipe(kMake, request); };
  row.parts = [](const Request& request) { return text_parts(kMake, request); };
  row.language = [](const Request& request) { return text_language(kMake, request); };
  return row;
}

}  // namespace

std::span<const RecipeRow> recipe_rows() {
  const char* falls = "Learning rate of the first step; it falls evenly to 0";
  static const std::vector<RecipeRow> kRows = {
      {.name = "linear",
       .doc = "A line y = x w + b through noisy points: the graph, its backward pass, and w and b recovered.",
       .defaults = {.points = 100, .batch = 4, .epochs = 20, .lr = 0.1, .by_epoch = true},
       .lr_doc = falls,
       .make = linear_recipe,
       .parts = linear_parts},
      {.name = "moons",
       .doc = "Two half moons told apart by a 2-16-16-1 network with hinge loss.",
       .defaults = {.points = 800, .batch = 10, .epochs = 80, .lr = 0.1, .weight_decay = 1e-4, .by_epoch = true},
       .lr_doc = "Learning rate of the last step; it begins at twice as much and falls evenly",
       .make = moons_recipe,
       .parts = moons_parts},
      {.name = "multiply-small",
       .doc = "The product of two numbers by a 2-5-1 network, one random pair at a time.",
       .defaults = {.points = 200'000, .batch = 1, .epochs = 1, .lr = 0.01, .words = {"pair", "pairs"}},
       .lr_doc = falls,
       .make = multiply_small_recipe,
       .parts = multiply_small_parts},
      {.name = "multiply-large",
       .doc = "The same by a 2-100-100-1 network.",
       .defaults = {.points = 200'000, .batch = 1, .epochs = 1, .lr = 0.006, .words = {"pair", "pairs"}},
       .lr_doc = falls,
       .make = multiply_large_recipe,
       .parts = multiply_large_parts},
      {.name = "circle",
       .doc = "Points inside and outside a circle told apart by a 2-100-100-2 tanh network, one at a time.",
       .defaults = {.points = 200'000, .batch = 1, .epochs = 1, .lr = 0.01},
       .lr_doc = falls,
       .make = circle_recipe,
       .parts = circle_parts},
      {.name = "mnist-mlp",
       .doc = "Handwritten digits by dense layers, one image at a time or many.",
       .defaults = {.points = 60'000, .batch = 1, .epochs = 5, .lr = 0.01, .words = {"image", "images"}},
       .lr_doc = falls,
       .batch_doc = "; 1 is for a 784-100-100-100-10 tanh network, more is for 784-512-512-10 ReLU, 10 epochs with "
                    "momentum and a rate of 0.05",
       .data = "mnist",
       .measure = kAccuracy,
       .paper_doc =
           "The run of the Camelax paper: rate 1e-4, in the order of the file, with its accuracies beside ours",
       .next = "serve",
       .make = mnist_mlp_recipe,
       .parts = mnist_mlp_parts},
      {.name = "mnist-conv",
       .doc = "Handwritten digits by two convolutions with pools and two dense layers.",
       .defaults =
           {.points = 60'000, .batch = 64, .epochs = 5, .lr = 2e-3, .optimizer = "adam", .words = {"image", "images"}},
       .lr_doc = falls,
       .data = "mnist",
       .measure = kAccuracy,
       .next = "serve",
       .make = mnist_conv_recipe,
       .parts = mnist_conv_parts},
      {.name = "mnist-autoencoder",
       .doc =
           "Handwritten digits through sixteen numbers and back (784-64-32-16-32-64-784), with a head that reads them.",
       .defaults =
           {.points = 60'000, .batch = 32, .epochs = 20, .lr = 2e-3, .optimizer = "adam", .words = {"image", "images"}},
       .lr_doc = falls,
       .data = "mnist",
       .measure = kAccuracy,
       .next = "serve",
       .make = mnist_autoencoder_recipe,
       .parts = mnist_autoencoder_parts},
      of_names<names_bigram>(
          {.name = "names-bigram",
           .doc = "Names, letter by letter: the next letter from the last one alone, beside the counts of pairs.",
           .defaults = {.points = 182'000, .batch = 1000, .epochs = 11, .lr = 10, .words = {"letter", "letters"}},
           .lr_doc = "Learning rate",
           .l2_doc = "Adds this number times the mean square of the table to the loss [0]"}),
      of_names<names_mlp>({.name = "names-mlp",
                           .doc = "Names, letter by letter: the next letter from the last three by a hidden layer.",
                           .defaults = {.points = 182'000,
                                        .batch = 256,
                                        .epochs = 10,
                                        .lr = 5e-3,
                                        .optimizer = "adamw",
                                        .weight_decay = 0.01,
                                        .words = {"letter", "letters"}},
                           .precisions = kPrecisions}),
      of_names<names_mlp_bn>({.name = "names-mlp-bn",
                              .doc = "The same with batch norm before the tanh.",
                              .defaults = {.points = 182'000,
                                           .batch = 256,
                                           .epochs = 30,
                                           .lr = 5e-3,
                                           .optimizer = "adamw",
                                           .weight_decay = 0.01,
                                           .words = {"letter", "letters"}},
                              .precisions = kPrecisions}),
      of_names<names_wavenet>({.name = "names-wavenet",
                               .doc = "Names: the next letter from the last eight, fused two by two in three levels.",
                               .defaults = {.points = 182'000,
                                            .batch = 256,
                                            .epochs = 16,
                                            .lr = 3e-3,
                                            .optimizer = "adamw",
                                            .weight_decay = 0.1,
                                            .words = {"letter", "letters"}},
                               .precisions = kPrecisions}),
      of_names<names_transformer>({.name = "names-transformer",
                                   .doc = "Names: the next letter from all before it by a GPT of four layers.",
                                   .defaults = {.points = 25'626,
                                                .batch = 64,
                                                .epochs = 24,
                                                .lr = 3e-3,
                                                .optimizer = "adamw",
                                                .weight_decay = 0.1,
                                                .words = {"name", "names"}},
                                   .precisions = kPrecisions}),
      of_shakespeare<shakespeare_gpt>({.name = "shakespeare-gpt",
                                       .doc = "Verses, character by character, by a GPT; --size large is nanoGPT's.",
                                       .defaults = {.points = 15'685,
                                                    .batch = 32,
                                                    .epochs = 5,
                                                    .lr = 2e-3,
                                                    .optimizer = "adamw",
                                                    .weight_decay = 0.1,
                                                    .words = {"window", "windows"}},
                                       .sizes = {"small", "large"},
                                       .precisions = kPrecisions}),
  };
  return kRows;
}

const RecipeRow& find_recipe(const std::string& name) {
  std::vector<std::string> known;
  for (const RecipeRow& row : recipe_rows()) {
    if (row.name == name) return row;
    known.push_back(row.name);
  }
  throw ConfigError(unknown_name("recipe", name, known));
}

void check_choices(const RecipeRow& row, const Wishes& wishes) {
  auto check = [&](const char* what, const std::optional<std::string>& wish, const std::vector<std::string>& known) {
    if (!wish) return;
    if (known.empty()) throw ConfigError(fmt::format("{0} has one {1}; leave out --{1}.", row.name, what));
    if (std::find(known.begin(), known.end(), *wish) == known.end())
      throw ConfigError(unknown_name(what, *wish, known));
  };
  check("size", wishes.size, row.sizes);
  check("precision", wishes.precision, row.precisions);
}

Schedule schedule(const Request& request, const Defaults& defaults) {
  const Wishes& wishes = request.wishes;
  auto positive = [](const char* option, int64_t value) {
    if (value < 1) throw ConfigError(fmt::format("{} is {}; it must be at least 1.", option, value));
    return value;
  };
  const std::string& many = defaults.words.many;
  Schedule out;
  out.seed = request.seed;
  out.points = defaults.points;
  out.weight_decay = defaults.weight_decay;
  out.batch = positive("--batch", wishes.batch.value_or(defaults.batch));
  if (out.batch > out.points)
    throw ConfigError(fmt::format("--batch {} is more than the {} {} there are.", out.batch, out.points, many));
  if (wishes.epochs && wishes.steps) throw ConfigError("--epochs and --steps exclude each other.");
  if (wishes.epochs) positive("--epochs", *wishes.epochs);
  constexpr int64_t kMost = 1'000'000'000;
  const int64_t epochs = wishes.epochs.value_or(defaults.epochs);
  if (epochs > kMost / out.steps_per_epoch())
    throw ConfigError(fmt::format("--epochs {} is more than {} steps.", epochs, kMost));
  out.steps = positive("--steps", wishes.steps.value_or(epochs * out.steps_per_epoch()));
  if (out.steps > kMost) throw ConfigError(fmt::format("--steps {} is more than {}.", out.steps, kMost));
  out.report = defaults.by_epoch ? out.steps_per_epoch() : std::max<int64_t>(1, out.steps / 100);
  out.lr = wishes.lr.value_or(defaults.lr);
  if (!std::isfinite(out.lr) || out.lr <= 0) throw ConfigError(fmt::format("--lr is {}; it must be positive.", out.lr));
  out.optimizer = wishes.optimizer.value_or(defaults.optimizer);
  chosen_optimizer(out, number(out.lr, DType::f32));
  return out;
}

std::string Measure::text(double value) const { return in_percent ? percent(value) : figure(value); }
std::string Measure::file() const {
  std::string out = name;
  for (char& c : out) c = char(std::tolower(c));
  return out + ".svg";
}

std::span<const std::string> optimizer_names() {
  static const std::array<std::string, 7> kNames = {"sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop", "lion"};
  return kNames;
}

Optimizer chosen_optimizer(const Schedule& schedule, const Tensor& lr) {
  const std::string& name = schedule.optimizer;
  const double decay = schedule.weight_decay;
  if (name == "sgd") return sgd({.lr = lr, .weight_decay = decay});
  if (name == "momentum") return sgd({.lr = lr, .momentum = 0.9, .weight_decay = decay});
  if (name == "nesterov") return sgd({.lr = lr, .momentum = 0.9, .nesterov = true, .weight_decay = decay});
  if (name == "adam") return adam({.lr = lr, .weight_decay = decay});
  if (name == "adamw") return adamw({.lr = lr, .weight_decay = decay});
  if (name == "rmsprop") return rmsprop({.lr = lr, .weight_decay = decay});
  if (name == "lion") return lion({.lr = lr, .weight_decay = decay});
  throw ConfigError(unknown_name("optimizer", name, {optimizer_names().begin(), optimizer_names().end()}));
}

std::string stand_in_message(const RecipeRow& row, const Recipe& recipe) {
  if (!is_made(recipe.data))
    return fmt::format(
        "caravan: warning: {1} has other data than {0} (the checksums differ), and it is trained on all the same; move "
        "the folder away, or give it with --data if it is meant.\n",
        row.data, recipe.data);
  const data::Dataset& set = data::dataset(row.data);
  const std::string how = set.package.packager == data::Packager::none
                              ? data::advice(set, data::data_cache())
                              : fmt::format("`caravan data get {}` fetches it", row.data);
  return fmt::format("caravan: {} is not here, so {} stand in for it; {}.\n", row.data, recipe.data, how);
}

bool is_made(const std::string& data) { return data == data::kDrawn || data == kMadeNames || data == kMadeText; }

Context interpreted(const Context& ctx) {
  Context out({.seed = ctx.seed(), .device = "interp"});
  copy_states(ctx, out);
  return out;
}

}  // namespace caravan::app
