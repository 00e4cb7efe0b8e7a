#include "caravan/parity/description.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "caravan/base/error.h"
#include "caravan/data/json_text.h"

namespace caravan::parity {

namespace {

using Json = nlohmann::json;
using data::shown;

constexpr int64_t kLargest = 1 << 24;  // of a size; their products stay far from overflow
constexpr size_t kDeepestModel = 64;   // levels of JSON
constexpr int64_t kMostBlocks = 1024;

// The options of one object. Every one is asked for once; what was not asked for is unknown.
class Options {
 public:
  Options(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) refuse("it must be an object, {\"type\": ...}");
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw ConfigError(fmt::format("{}: {}.", where_, problem));
  }

  const Json* find(const char* key) {
    known_.push_back(key);
    const auto at = json_.find(key);
    return at == json_.end() || at->is_null() ? nullptr : &*at;  // PyTorch's None
  }
  std::string text(const char* key) {
    const Json& value = needed(key);
    if (!value.is_string()) refuse(fmt::format("`{}` must be a text", key));
    return value.get<std::string>();
  }
  int64_t whole(const char* key, int64_t low = 1, int64_t high = kLargest) {
    return whole(needed(key), key, low, high);
  }
  int64_t whole_or(const char* key, int64_t otherwise) {
    const Json* value = find(key);
    return value ? whole(*value, key, 1, kLargest) : otherwise;
  }
  bool flag(const char* key, bool otherwise) {
    const Json* value = find(key);
    if (value && !value->is_boolean())
      refuse(fmt::format("`{}` must be true or false, not {}", key, shown(value->dump())));
    return value ? value->get<bool>() : otherwise;
  }
  double number(const char* key, double otherwise, double low = 0, double high = INFINITY) {
    const Json* value = find(key);
    return value ? number(*value, key, low, high) : otherwise;
  }
  std::array<double, 2> numbers(const char* key, std::array<double, 2> otherwise) {
    const Json* value = find(key);
    if (!value) return otherwise;
    if (!value->is_array() || value->size() != 2) refuse(fmt::format("`{}` must be two numbers", key));
    constexpr double kBelowOne = 1 - 0x1p-53;
    return {number((*value)[0], key, 0, kBelowOne), number((*value)[1], key, 0, kBelowOne)};
  }
  // A number for both, or a pair.
  Pair pair(const char* key, std::optional<Pair> otherwise = {}, int64_t low = 1) {
    const Json* value = otherwise ? find(key) : &needed(key);
    if (!value) return *otherwise;
    if (!value->is_array()) {
      const int64_t both = whole(*value, key, low, kLargest);
      return {both, both};
    }
    if (value->size() != 2) refuse(fmt::format("`{}` must be a number or a pair, not {}", key, shown(value->dump())));
    return {whole((*value)[0], key, low, kLargest), whole((*value)[1], key, low, kLargest)};
  }
  Sizes sizes(const char* key) {  // a number or a list; empty if not given
    const Json* value = find(key);
    if (!value) return {};
    if (!value->is_array()) return {whole(*value, key, 1, kLargest)};
    Sizes out;
    for (const Json& size : *value) out.push_back(whole(size, key, 1, kLargest));
    return out;
  }
  void no_others() const {
    for (const auto& [key, value] : json_.items())
      if (std::find(known_.begin(), known_.end(), key) == known_.end())
        refuse(fmt::format("there is no option {}; there are {}", shown(key), fmt::join(known_, ", ")));
  }

 private:
  const Json& needed(const char* key) {
    const Json* value = find(key);
    if (!value) refuse(fmt::format("`{}` is missing", key));
    return *value;
  }
  int64_t whole(const Json& value, const char* key, int64_t low, int64_t high) const {
    const bool fits = value.is_number_integer() && value >= low && value <= high;
    if (!fits)
      refuse(fmt::format("`{}` must be a whole number from {} to {}, not {}", key, low, high, shown(value.dump())));
    return value.get<int64_t>();
  }
  double number(const Json& value, const char* key, double low, double high) const {
    if (!value.is_number() || !(value.get<double>() >= low) || !(value.get<double>() <= high))
      refuse(fmt::format("`{}` must be a number from {} to {}, not {}", key, low, high, shown(value.dump())));
    return value.get<double>();
  }

  const Json& json_;
  std::string where_;
  std::vector<std::string> known_;
};

Json parsed(const std::string& text, const char* what) {
  if (const auto problem = data::json_problem(text, kDeepestModel))
    throw ConfigError(fmt::format("the {} {}.", what, *problem));
  return Json::parse(text);
}

std::vector<Layer> parse_layers(Options& o, const std::string& where);

Layer parse_pool(Options& o, Pool2d::Kind kind) {
  const Pair kernel = o.pair("kernel");
  const Pool2d out{kind, kernel, o.pair("stride", kernel), o.pair("padding", Pair{0, 0}, 0)};
  for (const int i : {0, 1})
    if (out.padding[size_t(i)] * 2 > kernel[size_t(i)])
      o.refuse(fmt::format("`padding` {} is more than half of `kernel` {}", out.padding[size_t(i)], kernel[size_t(i)]));
  return out;
}

Layer parse_batch_norm(Options& o, bool images) {
  return BatchNorm{images, o.whole_or("features", 0), o.number("eps", 1e-5), o.number("momentum", 0.1, 0, 1)};
}

Layer parse_layer_norm(Options& o) {
  Sizes sizes = o.sizes("features");
  if (Sizes same = o.sizes("normalized_shape"); !same.empty()) sizes = same;  // PyTorch's own name for them
  return LayerNorm{sizes, o.number("eps", 1e-5)};
}

Layer parse_conv(Options& o) {
  const Conv2d out{o.whole("in"),
                   o.whole("out"),
                   o.pair("kernel"),
                   o.pair("stride", Pair{1, 1}),
                   o.pair("padding", Pair{0, 0}, 0),
                   o.pair("dilation", Pair{1, 1}),
                   o.whole_or("groups", 1),
                   o.flag("bias", true)};
  if (out.in % out.groups != 0 || out.out % out.groups != 0)
    o.refuse(fmt::format("`groups` {} must divide `in` {} and `out` {}", out.groups, out.in, out.out));
  return out;
}

// One row a layer: `where` is its name for messages about layers inside it.
struct LayerRow {
  std::string type;
  std::function<Layer(Options& o, const std::string& where)> parse;
};
const std::vector<LayerRow>& layer_rows() {
  static const std::vector<LayerRow> rows = [] {
    std::vector<LayerRow> out = {
        {"linear",
         [](Options& o, auto&) -> Layer {
           return Linear{o.whole("in"), o.whole("out"), o.flag("bias", true)};
         }},
        {"conv2d", [](Options& o, auto&) { return parse_conv(o); }},
        {"max_pool2d", [](Options& o, auto&) { return parse_pool(o, Pool2d::Kind::max); }},
        {"avg_pool2d", [](Options& o, auto&) { return parse_pool(o, Pool2d::Kind::average); }},
        {"flatten", [](Options&, auto&) -> Layer { return Flatten{}; }},
        {"flatten_consecutive", [](Options& o, auto&) -> Layer { return FlattenConsecutive{o.whole("n")}; }},
        {"batch_norm", [](Options& o, auto&) { return parse_batch_norm(o, false); }},
        {"batch_norm2d", [](Options& o, auto&) { return parse_batch_norm(o, true); }},
        {"layer_norm", [](Options& o, auto&) { return parse_layer_norm(o); }},
        {"embedding",
         [](Options& o, auto&) -> Layer {
           return Embedding{o.whole("num"), o.whole("dim")};
         }},
        {"residual", [](Options& o, auto& where) -> Layer { return Residual{parse_layers(o, where)}; }},
    };
    for (const char* name : {"relu", "tanh", "sigmoid", "gelu", "gelu_tanh", "silu"})
      out.push_back({name, [name](Options&, auto&) -> Layer { return Activation{name}; }});
    return out;
  }();
  return rows;
}

Layer parse_layer(const Json& json, const std::string& position) {
  Options unnamed(json, fmt::format("layer {} of the model", position));
  const std::string type = unnamed.text("type");
  for (const LayerRow& row : layer_rows()) {
    if (row.type != type) continue;
    Options o(json, fmt::format("layer {} of the model, `{}`", position, type));
    o.find("type");
    const Layer out = row.parse(o, position);
    o.no_others();
    return out;
  }
  std::vector<std::string> types;
  for (const LayerRow& row : layer_rows()) types.push_back(row.type);
  unnamed.refuse(fmt::format("there is no layer {}; there are {}", shown(type), fmt::join(types, ", ")));
}

// `where` is the position of the layer around them, or empty.
std::vector<Layer> parse_layers(Options& o, const std::string& where) {
  const Json* list = o.find("layers");
  if (!list || !list->is_array() || list->empty()) o.refuse("`layers` must be a list of at least one layer");
  std::vector<Layer> out;
  for (const Json& layer : *list)
    out.push_back(parse_layer(layer, fmt::format("{}{}{}", where, where.empty() ? "" : ".", out.size())));
  return out;
}

Gpt parse_gpt(Options& o) {
  const Gpt out{
      o.whole("vocab"),      o.whole("ctx"), o.whole("dim"), o.whole("heads"), o.whole("layers", 0, kMostBlocks),
      o.flag("tied", false), false};
  if (out.dim % out.heads != 0) o.refuse(fmt::format("`heads` {} must divide `dim` {}", out.heads, out.dim));
  return out;
}

}  // namespace

ModelDescription parse_model(const std::string& text) {
  const Json json = parsed(text, "model");
  Options o(json, "the model");
  const std::string type = o.text("type");
  ModelDescription out;
  if (type == "sequential")
    out = Sequential{parse_layers(o, "")};
  else if (type == "gpt")
    out = parse_gpt(o);
  else
    o.refuse(fmt::format("there is no type {}; there are sequential, gpt", shown(type)));
  o.no_others();
  return out;
}

Loss parse_loss(const std::string& name) {
  if (name == "mse") return Loss::mse;
  if (name == "hinge") return Loss::hinge;
  if (name == "cross_entropy") return Loss::cross_entropy;
  throw ConfigError(fmt::format("there is no loss {}; there are mse, hinge, cross_entropy.", shown(name)));
}

Optimizer parse_optimizer(const std::string& text) {
  const Json json = parsed(text, "optimizer");
  Options o(json, "the optimizer");
  const std::string name = o.text("name");
  Optimizer out;
  if (name == "sgd") {
    const SgdOptions sgd_options{.lr = o.number("lr", 1e-3),
                                 .momentum = o.number("momentum", 0),
                                 .nesterov = o.flag("nesterov", false),
                                 .weight_decay = o.number("weight_decay", 0)};
    if (sgd_options.nesterov && sgd_options.momentum == 0) o.refuse("`nesterov` needs a `momentum` above 0");
    out = sgd(sgd_options);
  } else if (name == "adam" || name == "adamw") {
    const auto betas = o.numbers("betas", {0.9, 0.999});
    const AdamOptions adam_options{.lr = o.number("lr", 1e-3),
                                   .beta1 = betas[0],
                                   .beta2 = betas[1],
                                   .epsilon = o.number("eps", 1e-8),
                                   .weight_decay = o.number("weight_decay", name == "adam" ? 0 : 1e-2)};
    const AdamOptions& a = adam_options;
    out = name == "adam" ? adam(a) : adamw({a.lr, a.beta1, a.beta2, a.epsilon, a.weight_decay, a.name});
  } else {
    o.refuse(fmt::format("there is no optimizer {}; there are sgd, adam, adamw", shown(name)));
  }
  if (o.number("dampening", 0) != 0 || o.flag("amsgrad", false) || o.flag("maximize", false))
    o.refuse("`dampening`, `amsgrad` and `maximize` are known only as 0 and false");
  o.no_others();
  return out;
}

}  // namespace caravan::parity
