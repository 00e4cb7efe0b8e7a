// caravan sample: text by a saved language model, shown as it is written.
#include <fmt/format.h>

#include <chrono>
#include <iostream>

#include "apps/commands.h"
#include "apps/figures.h"
#include "apps/interruption.h"
#include "apps/json_line.h"
#include "apps/model_file.h"
#include "apps/pretrained_language.h"
#include "apps/progress.h"
#include "apps/recipes/language.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/base/printable.h"
#include "caravan/generate/generator.h"

namespace caravan::app {

namespace {

constexpr int64_t kMostTexts = 1'000'000;

// A model with all that it needs to write.
struct Writer {
  std::string name;  // of the recipe, or of the kind of model
  std::string path;  // of its weights
  Language language;
  data::Tensors weights;
  uint64_t seed = 0;
};

Writer trained_writer(const SampleOptions& options, const Settings& settings) {
  ModelFile file = read_model(options.file, settings.data());
  const RecipeRow& row = find_recipe(file.recipe);
  if (row.language)
    return {file.recipe, file.path, row.language(file.request), std::move(file.states), file.request.seed};
  std::vector<std::string> known;
  for (const RecipeRow& other : recipe_rows())
    if (other.language) known.push_back(other.name);
  throw ConfigError(fmt::format("{} is of the recipe {}, which is no language model; those are: {}.", file.path,
                                file.recipe, joined(known)));
}
Writer writer_of(const SampleOptions& options, const Settings& settings) {
  if (int(!options.file.empty()) + int(!options.llama.empty()) + int(!options.gpt2.empty()) != 1)
    throw ConfigError("`caravan sample` needs one model: a FILE that `caravan train --save` wrote, --llama or --gpt2.");
  if (!options.tokenizer.empty() && options.llama.empty())
    throw ConfigError("--tokenizer belongs to --llama; other models have their vocabulary with them.");
  if (!options.file.empty()) return trained_writer(options, settings);
  PretrainedLanguage made =
      options.gpt2.empty() ? llama_language(options.llama, options.tokenizer) : gpt2_language(options.gpt2);
  return {made.kind, made.path, std::move(made.language), std::move(made.weights)};
}

int64_t at_least(const char* option, int64_t value, int64_t least) {
  if (value < least) throw ConfigError(fmt::format("{} is {}; it must be at least {}.", option, value, least));
  return value;
}

}  // namespace

int sample_command(const SampleOptions& options, const Settings& settings) {
  const Writer writer = writer_of(options, settings);
  const Language& language = writer.language;
  SampleRequest request{.prompt = options.prompt.value_or(language.prompt),
                        .tokens = at_least("--tokens", options.tokens.value_or(language.tokens), 0),
                        .temperature = options.temperature,
                        .top_p = options.top_p,
                        .repetition_penalty = options.repetition_penalty,
                        .top_k = options.top_k,
                        .seed = settings.seed()};
  const int64_t count = at_least("--count", options.count.value_or(language.count), 1);
  if (count > kMostTexts) throw ConfigError(fmt::format("--count is {}; it is at most {}.", count, kMostTexts));

  if (const auto given = int64_t(language.tokenizer.encode(request.prompt).size());
      language.window > 0 && given > language.window && !options.json)
    std::cerr << fmt::format("caravan: {} sees {}, so only the last of the {} in the prompt count.\n", writer.name,
                             counted(language.window, "token", "tokens"), given);

  Context ctx({.seed = writer.seed,
               .device = settings.device(),
               .threads = int(settings.threads()),
               .quick_start = settings.quick_start(),
               .cache = settings.cache(),
               .compiling = compile_notice(options.json)},
              {});
  load_language(writer.weights, writer.path, language, ctx);
  Generator generator = language.generator(ctx);

  const Interruption interruption;  // a text ends where it is; what is written stays
  int64_t tokens = -1;              // of a text; the prompt is its first piece
  int64_t written = 0;              // tokens of all texts
  PrintableStream shown;
  using Clock = std::chrono::steady_clock;
  // The model is compiled for the first token, which follows the prompt, and for the second, which follows one token.
  constexpr int64_t kCompiled = 2;
  Clock::time_point compiled;
  request.each = [&](const std::string& piece) {
    if (++tokens > 0 && ++written == kCompiled) compiled = Clock::now();
    if (!options.json) std::cout << shown.add(piece) << std::flush;
    return !Interruption::asked();
  };
  const auto begun = Clock::now();
  std::vector<std::string> texts;
  for (int64_t i = 0; i < count && !Interruption::asked(); ++i) {
    request.number = uint64_t(i), tokens = -1;
    texts.push_back(sample(language, generator, request));
    if (!options.json) std::cout << shown.end() << (texts.back().ends_with('\n') ? "" : "\n") << std::flush;
    if (!options.json) texts.clear();
  }
  const auto ended = Clock::now();
  auto seconds = [&](Clock::time_point from) { return std::chrono::duration<double>(ended - from).count(); };
  if (options.json)
    std::cout << json_line(
        {{"recipe", writer.name},
         {"device", ctx.device()},
         {"seed", request.seed},
         {"prompt", request.prompt},
         {"texts", texts},
         {"tokens", written},
         {"seconds", seconds(begun)},
         {"tokens_per_second", written > kCompiled ? double(written - kCompiled) / seconds(compiled) : 0}});
  std::cout.flush();
  return Interruption::asked() ? Interruption::exit_code() : int(kDone);
}

}  // namespace caravan::app
