// caravan export: a saved model, a part of it, or one step of a language model, as one C99 file or as its weights
// alone.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "apps/commands.h"
#include "apps/json_line.h"
#include "apps/model_file.h"
#include "apps/output_folder.h"
#include "apps/recipes/language.h"
#include "caravan/base/error.h"
#include "caravan/data/safetensors.h"
#include "caravan/deploy/c99.h"

namespace caravan::app {

namespace {

// "digits 2.c" -> "digits_2"
std::string name_of(const std::string& path) {
  std::string out = std::filesystem::path(path).stem().string();
  for (char& c : out)
    if (!isalnum(uint8_t(c))) c = '_';
  return out;
}

std::string about_text(const ModelFile& file, const std::string& what) {
  std::string out =
      fmt::format("{} of the recipe {}, after {} steps of training", what, file.recipe, file.history.step);
  const Measure& measure = find_recipe(file.recipe).measure;
  if (!file.history.accuracies.empty())
    out += fmt::format("; {} on {} {}", measure.name, measure.on, measure.text(file.history.accuracies.back()));
  return out + ".";
}

// What is exported: a function of an input, or one step of a model that writes text.
struct Exported {
  Context ctx;
  Tensor input, output;
  Program updates{};  // of what the step remembers
  std::string what;   // "classifier"
  std::optional<deploy::CText> text{};
};

// Nothing is computed, so nothing need be compiled.
ContextOptions interpreted_options(const ModelFile& file) { return {.seed = file.request.seed, .device = "interp"}; }

Exported function_of(const ModelFile& file, const std::string& part) {
  LoadedPart model(file, part, 1, interpreted_options(file));
  const Part::Layer& answer = model.layers().back();
  return {model.context(), model.input(), answer.value.named(answer.name), {}, model.part().name};
}

Exported step_of(const ModelFile& file) {
  const Language language = find_recipe(file.recipe).language(file.request);
  Context ctx(interpreted_options(file), {});
  load_language(file.states, file.path, language, ctx);
  const Tensor token = input("token", {.batch = {1, 1}, .output = Extents{}, .dtype = DType::i32});
  const int64_t capacity = std::max<int64_t>(language.capacity, 1);
  const nn::Phase phase = nn::decoding({.capacity = capacity, .at = Index("at", capacity)});
  const Tensor logits = language.step(token, phase).named("logits");
  ctx.compile(observe(logits) & phase.updates(), {});  // so that it has the states of the step
  deploy::CText text{.first = language.first,
                     .end = language.end,
                     .context = language.capacity,
                     .prompt = language.prompt,
                     .texts = language.count,
                     .tokens = language.tokens};
  for (int32_t id = 0; id < language.tokenizer.size(); ++id) text.pieces.push_back(language.tokenizer.piece(id));
  for (const int32_t id : language.tokenizer.encode(language.prompt)) text.first.push_back(id);
  return {ctx, token, logits, phase.updates(), "next token", text};
}

}  // namespace

int export_command(const ExportOptions& options, const Settings& settings) {
  if (options.c.empty() && options.tensors.empty())
    throw ConfigError("`caravan export` needs --c FILE for a C file or --safetensors FILE for the weights alone.");
  if (options.c.empty() && !(options.header.empty() && options.weights.empty()))
    throw ConfigError("--header and --weights belong to a C file; give --c as well.");
  check_distinct({options.file, options.c, options.header, options.weights, options.tensors});
  const ModelFile file = read_model(options.file, settings.data());
  const bool step = options.part.empty() && find_recipe(file.recipe).language;
  const Exported model = step ? step_of(file) : function_of(file, options.part);
  const std::string about = about_text(file, model.what);
  deploy::CSource c;
  if (!options.c.empty())
    c = deploy::to_c99(model.ctx, model.input, model.output, model.updates,
                       {.name = options.name.empty() ? name_of(options.c) : options.name,
                        .about = about,
                        .weights_inside = options.weights.empty(),
                        .text = model.text});
  data::Tensors tensors;
  for (const Tensor& p : parameters(model.output)) tensors.list[p.name()] = *file.states.find(p.name());
  tensors.metadata = {{"about", about}};

  struct Output {
    OutputFile file;
    const std::string& path;
    std::string text;
  };
  std::vector<Output> outputs;  // all of them can be written before the first one is
  auto add = [&](const std::string& path, const char* option, std::string text) {
    if (!path.empty()) outputs.push_back({OutputFile(path, option), path, std::move(text)});
  };
  add(options.c, "--c", c.source), add(options.header, "--header", c.header);
  add(options.weights, "--weights", c.weights);
  add(options.tensors, "--safetensors", data::safetensors_content(tensors));
  nlohmann::ordered_json written = nlohmann::ordered_json::array();
  for (const Output& o : outputs) {
    o.file.write(o.text);
    if (!options.quiet && !options.json) std::cout << fmt::format("{}: {} bytes\n", o.path, o.text.size());
    written.push_back({{"path", o.path}, {"bytes", o.text.size()}});
  }
  if (options.json) std::cout << json_line({{"recipe", file.recipe}, {"part", model.what}, {"written", written}});
  return kDone;
}

}  // namespace caravan::app
