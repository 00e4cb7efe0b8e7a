#include "apps/model_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "apps/commands.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/data/atomic_file.h"
#include "caravan/data/json_text.h"
#include "caravan/data/sha256.h"
#include "caravan/train/checkpoint.h"

namespace caravan::app {

namespace {

constexpr const char* kFormat = "caravan recipe 3";
constexpr const char* kFormat2 = "caravan recipe 2";  // its tables of embeddings are transposed
constexpr const char* kFormat1 = "caravan recipe 1";  // and its loss curve has sums or moving averages
constexpr const char* kReports = "run/reports";
constexpr const char* kAccuracies = "run/accuracies";
constexpr const char* kRight = "run/right";  // of each stretch, and the sum of the one that is not finished
constexpr const char* kSums = "run/sums";
constexpr const char* kSum = "sha256";  // of the file without it

data::StoredTensor numbers(const std::vector<double>& values) {
  return data::stored(Array::vector(values, DType::f64));
}

// What a file says of a run, taken out piece by piece.
class Reader {
 public:
  Reader(const std::string& path, data::Tensors& tensors) : path_(path), tensors_(tensors) {}

  bool says(const std::string& key) const { return tensors_.metadata.contains(key); }
  bool has(const std::string& name) const { return tensors_.find(name) != nullptr; }
  const std::string& text(const std::string& key) const {
    if (!says(key)) refuse("its metadata has no `" + key + "`");
    return tensors_.metadata.at(key);
  }
  template <class Number>
  Number number(const std::string& key) const {
    const std::string& written = text(key);
    Number out{};
    const auto [stop, error] = std::from_chars(written.data(), written.data() + written.size(), out);
    if (error != std::errc() || stop != written.data() + written.size())
      refuse(fmt::format("its `{}` is {}", key, data::shown(written)));
    return out;
  }
  int64_t whole(const std::string& key, int64_t low) const {
    const auto out = number<int64_t>(key);
    if (out < low) refuse(fmt::format("its `{}` is {}", key, out));
    return out;
  }
  std::vector<double> values(const std::string& name) {
    const data::StoredTensor* found = tensors_.find(name);
    if (!found) refuse("it has no `" + name + "`");
    if (found->type != data::StoredType::f64 || found->sizes.size() != 1) refuse("its `" + name + "` is no list");
    std::vector<double> out = tensors_.array(name).values();
    tensors_.list.erase(name);
    return out;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw ConfigError(fmt::format(
        "{} is not a checkpoint of a recipe: {}; `caravan train RECIPE --save FILE` writes one.", path_, why));
  }

 private:
  const std::string& path_;
  data::Tensors& tensors_;
};

// Earlier formats have a column for each id, in the tables and in their moments.
void transpose_tables(data::Tensors& states) {
  for (auto& [name, state] : states.list)
    for (const char* table : {"table.weight", "letters.weight", "tok.weight", "pos.weight"})
      if (name.starts_with(table) && state.sizes.size() == 2) state = data::transposed(state);
}

}  // namespace

std::string model_content(const std::string& recipe, const ModelRun& run, const Context& ctx) {
  const Schedule& s = run.schedule;
  const History& h = run.history;
  data::Tensors out = checkpoint(ctx);
  if (run.as_declared)
    for (auto& [name, state] : out.list) state = data::stored(ctx.read(name).cast(ctx.dtype(name)));
  out.list[kReports] = numbers(h.reports);
  out.list[kAccuracies] = numbers(h.accuracies);
  if (!h.right.empty() || h.stretch_right != 0) {
    std::vector<double> right = h.right;
    right.push_back(h.stretch_right);
    out.list[kRight] = numbers(right);
  }
  out.list[kSums] = numbers({h.stretch, double(h.stretch_steps), h.epoch, h.last_epoch, h.last_loss});
  out.metadata = {{"format", kFormat},
                  {"caravan", version()},
                  {"recipe", recipe},
                  {"step", std::to_string(h.step)},
                  {"steps", std::to_string(s.steps)},
                  {"report", std::to_string(s.report)},
                  {"batch", std::to_string(s.batch)},
                  {"lr", fmt::format("{}", s.lr)},
                  {"optimizer", s.optimizer},
                  {"seed", std::to_string(s.seed)},
                  {"paper", run.wishes.paper ? "1" : "0"},
                  {"data", run.data},
                  {"data_sum", run.data_sum},
                  {"device", ctx.device()},
                  {"precision", ctx.device() == "interp" ? "f64" : "as declared"}};
  if (run.wishes.l2) out.metadata["l2"] = fmt::format("{}", *run.wishes.l2);
  if (run.wishes.size) out.metadata["size"] = *run.wishes.size;
  if (run.wishes.precision) out.metadata["products"] = *run.wishes.precision;
  if (run.parts > 0) out.metadata["parts"] = std::to_string(run.parts);
  if (run.split_states) out.metadata["split_states"] = "1";
  if (!run.vocabulary.empty()) out.metadata["vocabulary"] = run.vocabulary;
  out.metadata[kSum] = data::sha256(data::safetensors_content(out));
  return data::safetensors_content(out);
}

void write_model(const std::string& path, const std::string& recipe, const ModelRun& run, const Context& ctx) {
  data::write_file(path, model_content(recipe, run, ctx));
}

ModelFile read_model(const std::string& path, const data::Places& places) {
  ModelFile out;
  out.path = path;
  out.states = data::read_safetensors(path);
  Reader in(path, out.states);
  const bool old = in.text("format") == kFormat1, has_columns = old || in.text("format") == kFormat2;
  if (!has_columns && in.text("format") != kFormat)
    in.refuse(fmt::format("its format is {}, not `{}`", data::shown(in.text("format")), kFormat));
  const std::string sum = in.text(kSum);
  out.states.metadata.erase(kSum);
  if (data::sha256(data::safetensors_content(out.states)) != sum)
    throw ConfigError(fmt::format("{} is damaged: its content does not have the checksum it was written with.", path));
  out.recipe = in.text("recipe");
  const RecipeRow& row = find_recipe(out.recipe);
  out.request = {{.steps = in.whole("steps", 1),
                  .batch = in.whole("batch", 1),
                  .lr = in.number<double>("lr"),
                  .optimizer = in.text("optimizer"),
                  .paper = in.text("paper") == "1"},
                 in.number<uint64_t>("seed"),
                 places};
  if (in.says("l2")) out.request.wishes.l2 = in.number<double>("l2");
  if (in.says("size")) out.request.wishes.size = in.text("size");
  if (in.says("products")) out.request.wishes.precision = in.text("products");
  if (row.language) {
    out.request.vocabulary = in.text("vocabulary");
    data::parse_tokenizer(out.request.vocabulary, path);  // refuses a damaged one by the name of its file
    if (has_columns) transpose_tables(out.states);
  }
  out.data = in.text("data");
  out.data_sum = in.text("data_sum");
  if (in.says("device")) out.device = in.text("device");
  out.report = in.whole("report", 1);
  if (in.says("parts")) out.parts = in.whole("parts", 1);
  out.split_states = in.says("split_states");
  History& h = out.history;
  h.step = in.whole("step", 0);
  h.reports = in.values(kReports);
  h.accuracies = in.values(kAccuracies);
  if (in.has(kRight)) {
    h.right = in.values(kRight);
    if (h.right.empty()) in.refuse(fmt::format("its `{}` is empty", kRight));
    h.stretch_right = h.right.back();
    h.right.pop_back();
  }
  const std::vector<double> sums = in.values(kSums);
  if (sums.size() != 5) in.refuse(fmt::format("its `{}` has {} numbers", kSums, sums.size()));
  h.last_loss = sums[4];
  if (old) {  // the curve has a gap where the file does not have its values
    h.reports.assign(h.reports.size(), std::numeric_limits<double>::quiet_NaN());
    h.epoch = sums[1], h.last_epoch = sums[2];
  } else {
    h.stretch = sums[0], h.stretch_steps = int64_t(sums[1]), h.epoch = sums[2], h.last_epoch = sums[3];
  }
  out.states.metadata.clear();
  return out;
}

bool is_as_declared(const data::Tensors& states, const Context& ctx) {
  for (const std::string& name : ctx.names())
    if (const data::StoredTensor* state = states.find(name); state && data::dtype(state->type) != ctx.dtype(name))
      return false;
  return true;
}

std::string nonfinite_state(const Context& ctx) {
  for (const std::string& name : ctx.names())
    for (const double value : ctx.read(name).values())
      if (!std::isfinite(value))
        return fmt::format("the state {} has {}", data::shown(name),
                           std::isnan(value) ? "nan" : fmt::format("{}", value));
  return "";
}

namespace {

Part chosen(const ModelFile& file, const std::string& name) {
  std::string known;
  for (Part& part : find_recipe(file.recipe).parts(file.request)) {
    if (name.empty() || part.name == name) return part;
    add_to_list(known, part.name);
  }
  throw ConfigError(fmt::format("{} has no part `{}`; there are: {}.", file.path, name, known));
}

Tensor input_of(const Shape& example, int64_t n) {
  Extents outputs;
  for (const Axis& axis : example.output) outputs.emplace_back(axis.size);
  return caravan::input("input", {.batch = {n}, .input = Extents{}, .output = outputs});
}

}  // namespace

LoadedPart::LoadedPart(const ModelFile& file, const std::string& part, int64_t n, const ContextOptions& options)
    : part_(chosen(file, part)), ctx_(options, {}), input_(input_of(part_.input, n)), layers_(part_.layers(input_)) {
  std::vector<Tensor> values;
  for (const Part::Layer& layer : layers_) values.push_back(layer.value);
  routine_ = ctx_.compile(observe(values));
  load_checkpoint(file.states, file.path, ctx_, {.allow_unexpected = true}, {});  // the moments of its optimiser
}

std::vector<Array> LoadedPart::run(const Array& x) {
  ctx_.write(input_, x);
  routine_->run();
  std::vector<Array> out;
  for (const Part::Layer& layer : layers_) out.push_back(routine_->read(layer.value));
  return out;
}

}  // namespace caravan::app
