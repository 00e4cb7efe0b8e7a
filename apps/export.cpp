// caravan export: a saved model, or a part of it, as one C99 file or as its weights alone.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "apps/commands.h"
#include "apps/json_line.h"
#include "apps/model_file.h"
#include "apps/output_folder.h"
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

std::string about(const ModelFile& file, const std::string& part) {
  std::string out =
      fmt::format("{} of the recipe {}, after {} steps of training", part, file.recipe, file.history.step);
  const Measure& measure = find_recipe(file.recipe).measure;
  if (!file.history.accuracies.empty())
    out += fmt::format("; {} on {} {}", measure.name, measure.on, measure.text(file.history.accuracies.back()));
  return out + ".";
}

}  // namespace

int export_command(const ExportOptions& options, const Settings& settings) {
  if (options.c.empty() && options.tensors.empty())
    throw ConfigError("`caravan export` needs --c FILE for a C file or --safetensors FILE for the weights alone.");
  if (options.c.empty() && !(options.header.empty() && options.weights.empty()))
    throw ConfigError("--header and --weights belong to a C file; give --c as well.");
  check_distinct({options.file, options.c, options.header, options.weights, options.tensors});
  const ModelFile file = read_model(options.file, settings.data());
  // Nothing is computed, so nothing need be compiled.
  LoadedPart model(file, options.part, 1, {.seed = file.request.seed, .device = "interp"});
  const Part::Layer& answer = model.layers().back();
  deploy::CSource c;
  if (!options.c.empty())
    c = deploy::to_c99(model.context(), model.input(), answer.value.named(answer.name),
                       {.name = options.name.empty() ? name_of(options.c) : options.name,
                        .about = about(file, model.part().name),
                        .weights_inside = options.weights.empty()});
  data::Tensors tensors;
  for (const Tensor& p : parameters(answer.value)) tensors.list[p.name()] = *file.states.find(p.name());
  tensors.metadata = {{"about", about(file, model.part().name)}};

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
  if (options.json)
    std::cout << json_line({{"recipe", file.recipe}, {"part", model.part().name}, {"written", written}});
  return kDone;
}

}  // namespace caravan::app
