#include "apps/serve/digit_source.h"

#include <fmt/format.h>

#include <filesystem>

#include "apps/model_file.h"
#include "apps/output_folder.h"
#include "caravan/backend/kernel_cache.h"
#include "caravan/backend/own_folder.h"
#include "caravan/base/error.h"
#include "caravan/base/folders.h"
#include "caravan/data/digits.h"

namespace caravan::app {

namespace {

const char* const kRecipe = "mnist-mlp";
constexpr int64_t kStretch = 100;  // steps between two looks at whether to stop
constexpr int64_t kEpochs = 3;     // enough for a page; some seconds

// The cache; where there is none, a folder that goes with this process.
std::string folder_of(const Settings& settings) {
  return settings.cache().empty() ? backend::own_folder() : settings.cache();
}

struct Wanted {
  Settings settings;
  std::string kept;  // the file that the cache has, or will have
  ContextOptions context;
  serve::Digits& digits;

  Wanted(const Settings& settings, serve::Digits& digits)
      : settings(settings), kept(folder_of(settings) + "/digits.safetensors"), digits(digits) {
    context.seed = settings.seed();
    context.device = settings.device();
    context.cache = settings.cache();
    context.threads = int(settings.threads());
  }
};

serve::DigitModel digit_model(const ModelFile& file, const ContextOptions& options) {
  const Part model = find_recipe(file.recipe).parts(file.request).front();
  if (!model.probabilities || model.input.elements() != serve::kDigitPixels)
    throw ConfigError(
        fmt::format("{} holds {}, which does not read digits; `caravan train {} --save FILE` makes a model that does.",
                    file.path, file.recipe, kRecipe));
  LoadedPart whole(file, model.name, 1, options);
  std::vector<serve::NamedTensor> layers;
  for (const Part::Layer& layer : whole.layers()) layers.push_back({layer.name, layer.value});
  return serve::compiled_model(fmt::format("{}, trained on {}", file.recipe, file.data), whole.context(), whole.input(),
                               layers);
}

// The first image of each digit.
std::vector<serve::DigitExample> examples_of(const data::LabelledImages& images) {
  std::vector<serve::DigitExample> out;
  for (int label = 0; label < 10; ++label)
    for (int64_t i = 0; i < images.labels.size(); ++i) {
      if (images.labels.at(i) != label) continue;
      serve::DigitExample& example = out.emplace_back(serve::DigitExample{label, {}});
      for (int64_t p = 0; p < serve::kDigitPixels; ++p)
        example.pixels.push_back(float(images.images.at(i * serve::kDigitPixels + p) / 255));
      break;
    }
  return out;
}

// Trains and keeps the model. False: it was told to stop.
bool train(const Wanted& wanted, const std::stop_token& stop) {
  make_private_folder(folder_of(wanted.settings));
  const OutputFile writable(wanted.kept, "CARAVAN_CACHE");  // before the work, not after it
  Request request;
  request.wishes.epochs = kEpochs;
  request.seed = wanted.settings.seed();
  request.places = wanted.settings.data();
  const Recipe recipe = find_recipe(kRecipe).make(request);
  const Schedule& schedule = recipe.schedule;
  Context ctx(wanted.context, {});
  Routine step = ctx.compile(recipe.program, {});
  History history;
  while (history.step < schedule.steps) {
    if (stop.stop_requested()) return false;
    wanted.digits.say(
        fmt::format("training {} on {}: {} %.", kRecipe, recipe.data, 100 * history.step / schedule.steps));
    const int64_t some = std::min(kStretch, schedule.steps - history.step);
    step.run_steps(some, recipe.at(history.step));
    history.step += some;
  }
  history.last_loss = step.read(recipe.loss).item();
  write_model(wanted.kept, kRecipe, {schedule, history, {}, recipe.data, recipe.data_sum}, ctx);
  return true;
}

// The model that an earlier run left, if it was trained on these digits.
bool use_kept(const Wanted& wanted, const data::Digits& data) {
  if (!std::filesystem::exists(wanted.kept)) return false;
  try {
    const ModelFile file = read_model(wanted.kept, wanted.settings.data());
    if (file.recipe != kRecipe || file.data != data.source) return false;
    wanted.digits.use(digit_model(file, wanted.context));
    return true;
  } catch (const UserError&) {  // of another version: it is trained again
    return false;
  }
}

void find_model(const Wanted& wanted, bool given, const std::stop_token& stop) {
  try {
    wanted.digits.say("looking for digits.");
    const data::Digits data = data::find_digits(wanted.settings.data(), wanted.settings.seed());
    wanted.digits.show(examples_of(data.test));
    if (given || use_kept(wanted, data)) return;
    if (train(wanted, stop)) wanted.digits.use(digit_model(read_model(wanted.kept, {}), wanted.context));
  } catch (const std::exception& error) {
    wanted.digits.say(fmt::format("there is no model: {}", error.what()));
  }
}

}  // namespace

DigitSource::DigitSource(const std::string& file, const Settings& settings, serve::Digits& digits) {
  const data::Places places = settings.data();
  if (!places.given.empty() && !data::find_dataset("mnist", places))
    throw ConfigError(data::missing_message("mnist", places));
  const Wanted wanted(settings, digits);
  if (!file.empty()) digits.use(digit_model(read_model(file, places), wanted.context));
  thread_ = std::jthread([=](const std::stop_token& stop) { find_model(wanted, !file.empty(), stop); });
}
DigitSource::~DigitSource() = default;

}  // namespace caravan::app
