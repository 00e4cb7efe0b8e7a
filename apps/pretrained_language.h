// Language models from files of other programs.
#pragma once

#include "apps/recipes/recipe.h"
#include "caravan/data/safetensors.h"

namespace caravan::app {

struct PretrainedLanguage {
  std::string kind, path;  // "llama", and the file of the weights
  Language language;
  data::Tensors weights;
};
// `tokenizer` may be empty: a file beside the model, tokenizer.bin or tokN.bin for a vocabulary of N ids.
PretrainedLanguage llama_language(const std::string& file, const std::string& tokenizer);
PretrainedLanguage gpt2_language(const std::string& folder);

}  // namespace caravan::app
