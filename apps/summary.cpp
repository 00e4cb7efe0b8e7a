// caravan summary: the layers of a recipe's model, or of a saved one.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "apps/commands.h"
#include "apps/figures.h"
#include "apps/json_line.h"
#include "apps/model_file.h"
#include "apps/terminal.h"
#include "caravan/base/error.h"
#include "caravan/base/printable.h"
#include "caravan/plot/scale.h"
#include "caravan/tensor/program.h"

namespace caravan::app {

namespace {

struct LayerRow {
  std::string name, output;
  int64_t parameters = 0;
};

// What each layer gives for one example, and the parameters that no layer before it has.
std::vector<LayerRow> rows_of(const Part& part) {
  Extents axes;
  for (const Axis& axis : part.input.output) axes.emplace_back(axis.size);
  const std::vector<Part::Layer> layers =
      part.layers(input("input", {.batch = Extents{}, .input = Extents{}, .output = axes}));
  Context ctx({.device = "interp"});
  ctx.compile(observe(layers.back().value));  // with which the parameters have their shapes
  const std::map<std::string, Shape> shapes = ctx.shapes();
  std::set<std::string> seen;
  std::vector<LayerRow> out;
  for (const Part::Layer& layer : layers) {
    const Shape shape = ctx.shape(layer.value);
    LayerRow& row = out.emplace_back(LayerRow{layer.name, shape.rank() == 0 ? "1" : to_string(shape), 0});
    for (const Tensor& p : parameters(layer.value))
      if (seen.insert(p.name()).second) row.parameters += shapes.at(p.name()).elements();
  }
  return out;
}

std::string text_of(const Part& part, const std::vector<LayerRow>& rows, const Screen& screen) {
  const int64_t numbers = part.input.elements();
  std::string out =
      screen.styled(Style::strong, part.name) + ": one example has " + counted(numbers, "number", "numbers");
  if (part.input.rank() > 1) out += ", " + to_string(part.input);
  out += "\n\n";
  out += screen.styled(Style::faint, fmt::format("  {:<16} {:<16} {:>12}", "layer", "output", "parameters")) + "\n";
  int64_t total = 0;
  for (const LayerRow& row : rows) {
    out += fmt::format("  {:<16} {:<16} {:>12}\n", row.name, row.output,
                       row.parameters == 0 ? "." : plot::grouped(row.parameters));
    total += row.parameters;
  }
  return out + fmt::format("  {:<16} {:<16} {:>12}\n", "in all", "", plot::grouped(total));
}

std::string about(const ModelFile& file, const Measure& measure) {
  std::string out =
      fmt::format("{} of {}", counted(file.history.step, "step", "steps"), plot::grouped(*file.request.wishes.steps));
  out += fmt::format(", loss {}", figure(file.history.loss()));
  if (!file.history.accuracies.empty())
    out += fmt::format(", {} {}", measure.name, measure.text(file.history.accuracies.back()));
  if (!file.device.empty()) out += ", on " + printable(file.device);
  return file.data.empty() ? out : out + ", trained on " + printable(file.data);
}

}  // namespace

int summary_command(const SummaryOptions& options, const Settings& settings) {
  Request request;
  request.seed = settings.seed(), request.places = settings.data();
  std::optional<ModelFile> file;
  std::string recipe = options.what;
  if (std::filesystem::exists(options.what)) {
    file = read_model(options.what, settings.data());
    request = file->request, recipe = file->recipe;
  }
  const RecipeRow& row = find_recipe(recipe);
  const std::vector<Part> parts = row.parts(request);
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Part& part : parts) {
      nlohmann::ordered_json layers = nlohmann::ordered_json::array();
      for (const LayerRow& layer : rows_of(part))
        layers.push_back({{"name", layer.name}, {"output", layer.output}, {"parameters", layer.parameters}});
      all.push_back({{"name", part.name}, {"input", to_string(part.input)}, {"layers", layers}});
    }
    nlohmann::ordered_json out{{"recipe", row.name}, {"parts", all}};
    if (file) out["step"] = file->history.step, out["data"] = file->data;
    std::cout << json_line(out);
    return kDone;
  }
  const Screen screen = output_screen();
  std::cout << wrapped(screen.styled(Style::strong, row.name) + ": " + row.doc, screen.width) << "\n";
  if (file) std::cout << '\n' << screen.fact("saved", about(*file, row.measure));
  for (const Part& part : parts) std::cout << '\n' << text_of(part, rows_of(part), screen);
  return kDone;
}

}  // namespace caravan::app
