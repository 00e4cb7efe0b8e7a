// GPT-2 as it is published: a folder with config.json and model.safetensors, and the files of its vocabulary.
#pragma once

#include <string>
#include <string_view>

#include "caravan/nn/transformer.h"
#include "caravan/pretrained/name_map.h"

namespace caravan::pretrained {

// The sizes of a model and its weights.
struct Gpt2 {
  nn::GptOptions options;  // for nn::Gpt
  data::Tensors weights;   // under the names of nn::Gpt, for load_checkpoint
};

// From a folder. ConfigError, one sentence, for what is missing, damaged or of other sizes.
Gpt2 read_gpt2(const std::string& folder);

// The sizes that a config.json gives; the head is tied to the table of tokens.
nn::GptOptions gpt2_options(std::string_view config, const std::string& file);
// Where the tensors of nn::Gpt are in such a file. Linear maps there are [input, output]. Some files write
// `transformer.` before every name.
NameMap gpt2_names(const nn::GptOptions& sizes, const std::string& prefix = "");

}  // namespace caravan::pretrained
