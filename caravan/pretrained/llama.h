// Small Llamas in the files of llama2.c: its first format (sizes, then floats), and its versions 1 (floats) and 2
// (bytes with a factor for every group of them), which are read into f32.
#pragma once

#include <string>
#include <string_view>

#include "caravan/data/safetensors.h"
#include "caravan/nn/llama.h"

namespace caravan::pretrained {

// The sizes of a model and its weights.
struct Llama2c {
  nn::LlamaOptions options;  // for nn::Llama
  data::Tensors weights;     // under the names of nn::Llama, for load_checkpoint
};

Llama2c read_llama2c(const std::string& path);  // ConfigError, one sentence, for everything that is wrong with a file
Llama2c parse_llama2c(std::string_view content, const std::string& file);  // the same from bytes in memory

}  // namespace caravan::pretrained
