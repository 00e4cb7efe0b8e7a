// config.json of GPT-2: the sizes that are read make a list of names.
#include "caravan/base/error.h"
#include "caravan/pretrained/gpt2.h"
#include "fuzz.h"

using namespace caravan;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) try {
  const nn::GptOptions options = pretrained::gpt2_options(text_of(data, size), "config.json");
  must(options.heads > 0 && options.dim % options.heads == 0);
  const pretrained::NameMap names = pretrained::gpt2_names(options);
  must(names.blocks == options.layers);
  pretrained::renamed({}, names, "model.safetensors");
  must(false);  // it has no tensors
  return 0;
} catch (const ConfigError&) {
  return 0;
}

std::vector<std::string> seeds() {
  const std::string sizes = R"("n_embd": 8, "n_head": 2, "n_layer": 2, "vocab_size": 10)";
  return {"{" + sizes + R"(, "n_positions": 8, "model_type": "gpt2", "activation_function": "gelu_new"})",
          "{" + sizes + R"(, "n_ctx": 8, "layer_norm_epsilon": 1e-05, "task_specific_params": {"a": [1, null]}})"};
}
