#include "caravan/pretrained/gpt2.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "caravan/base/error.h"
#include "caravan/data/atomic_file.h"
#include "caravan/data/json_text.h"

namespace caravan::pretrained {

namespace {

constexpr int64_t kLargestGpt2Size = int64_t(1) << 30;

int64_t size_of(const nlohmann::json& config, const char* name, const std::string& file) {
  const auto at = config.find(name);
  if (at == config.end() || !at->is_number_integer() || at->get<int64_t>() < 1 || at->get<int64_t>() > kLargestGpt2Size)
    throw ConfigError(file + ": `" + name + "` should be a size, a whole number from 1 on.");
  return at->get<int64_t>();
}

// What nn::Gpt computes cannot be chosen, so a model that was trained with something else is refused.
void check_same(const nlohmann::json& config, const char* name, const nlohmann::json& expected,
                const std::string& file) {
  if (const auto at = config.find(name); at != config.end() && *at != expected)
    throw ConfigError(fmt::format("{}: the {} is {}; only models with {} can be read.", file, name,
                                  data::shown(at->dump()), data::shown(expected.dump())));
}

}  // namespace

nn::GptOptions gpt2_options(std::string_view text, const std::string& file) {
  if (auto problem = data::json_problem(text, 16)) throw ConfigError(file + " " + *problem + ".");
  const nlohmann::json config = nlohmann::json::parse(text);
  if (!config.is_object()) throw ConfigError(file + " should be an object of JSON with the sizes of a GPT-2.");
  if (config.contains("model_type") && config["model_type"] != "gpt2")
    throw ConfigError(file + ": the model_type is " + data::shown(config["model_type"].dump()) + ", not gpt2.");
  check_same(config, "activation_function", "gelu_new", file);
  check_same(config, "layer_norm_epsilon", 1e-5, file);
  nn::GptOptions out;
  out.vocab = size_of(config, "vocab_size", file);
  out.ctx = size_of(config, config.contains("n_positions") ? "n_positions" : "n_ctx", file);
  out.dim = size_of(config, "n_embd", file);
  out.heads = size_of(config, "n_head", file);
  out.layers = size_of(config, "n_layer", file);
  out.tied = true;
  out.attention_bias = true;
  if (out.dim % out.heads != 0)
    throw ConfigError(file + ": n_head, " + std::to_string(out.heads) + ", does not divide n_embd, " +
                      std::to_string(out.dim) + ".");
  return out;
}

NameMap gpt2_names(const nn::GptOptions& o, const std::string& prefix) {
  using Sizes = std::vector<int64_t>;
  const int64_t of_a_head = o.dim / o.heads;
  NameMap out;
  out.blocks = o.layers;
  auto add = [&](const std::string& ours, const std::string& theirs, bool transposed, Sizes sizes = {}) {
    out.tensors.push_back(
        {.ours = ours, .theirs = {prefix + theirs}, .transposed = transposed, .sizes = std::move(sizes)});
  };
  auto add_linear = [&](const std::string& ours, const std::string& theirs, Sizes weight, Sizes bias) {
    add("blocks.{}." + ours + ".weight", "h.{}." + theirs + ".weight", true, std::move(weight));
    add("blocks.{}." + ours + ".bias", "h.{}." + theirs + ".bias", false, std::move(bias));
  };
  auto add_norm = [&](const std::string& ours, const std::string& theirs) {
    add(ours + ".weight", theirs + ".weight", false, {o.dim});
    add(ours + ".bias", theirs + ".bias", false, {o.dim});
  };
  add("tok.weight", "wte.weight", false, {o.vocab, o.dim});
  add("pos.weight", "wpe.weight", false, {o.ctx, o.dim});
  add_norm("blocks.{}.ln1", "h.{}.ln_1");
  add_linear("attn.qkv", "attn.c_attn", {3 * o.heads, of_a_head, o.dim}, {3 * o.heads, of_a_head});
  add_linear("attn.proj", "attn.c_proj", {o.dim, o.heads, of_a_head}, {o.dim});
  add_norm("blocks.{}.ln2", "h.{}.ln_2");
  add_linear("up", "mlp.c_fc", {4 * o.dim, o.dim}, {4 * o.dim});
  add_linear("down", "mlp.c_proj", {o.dim, 4 * o.dim}, {o.dim});
  add_norm("ln", "ln_f");
  // Masks, which the model computes, and the head, which is the table of tokens.
  out.ignored = {prefix + "h.*.attn.bias", prefix + "h.*.attn.masked_bias", "lm_head.weight"};
  return out;
}

Gpt2 read_gpt2(const std::string& folder) {
  const std::string config = folder + "/config.json", weights = folder + "/model.safetensors";
  Gpt2 out{gpt2_options(data::read_file(config), config), {}};
  const data::Tensors file = data::read_safetensors(weights);
  const std::string prefix = file.find("transformer.wte.weight") ? "transformer." : "";
  out.weights = renamed(file, gpt2_names(out.options, prefix), weights);
  return out;
}

}  // namespace caravan::pretrained
