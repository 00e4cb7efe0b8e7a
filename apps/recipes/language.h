// What the recipes of language models share: texts and their vocabulary, batches of ids, the loss of every part of the
// data, and samples.
#pragma once

#include "apps/recipes/recipe.h"
#include "caravan/data/safetensors.h"
#include "caravan/data/sequences.h"
#include "caravan/nn/nn.h"

namespace caravan::app {

struct TextData;

// A model of text, as a recipe needs it.
struct TextModel {
  std::string recipe;   // its name
  std::string words;    // the model in a few words
  int64_t context = 0;  // ids that it sees at most
  // Whether it sees exactly `context` ids, `... | t`, and gives logits of the next one, `... | v`. Otherwise it sees
  // ids `..., t |` and gives logits of what follows each one, `..., t | v`.
  bool window = true;
  std::function<Tensor(const Tensor& ids, const nn::Phase& phase)> logits{};
  std::optional<DType> precision{};    // of products in training; none: that of the weights
  std::function<Tensor()> penalty{};   // what is added to the loss in training; empty: nothing
  bool constant_rate = false;          // otherwise it rises, then falls along a cosine
  std::optional<Defaults> defaults{};  // where a size of the model has other ones than its recipe
  double clip = 0;                     // the largest norm of all gradients together; 0: any
  std::function<void(Findings&, const TextData&, Context&)> more{};  // adds findings of its own
};
// For a vocabulary of so many symbols.
using MakeTextModel = TextModel (*)(int64_t symbols, const Wishes& wishes);

// Examples of one part of the data: inputs `n | t` and targets `n |` of windows, or inputs and targets `n, t |`.
struct TextPart {
  std::string name;  // "train"
  data::Sequences examples;
};
struct TextData {
  data::Tokenizer tokenizer;
  std::vector<TextPart> parts;  // the first is trained on, the second is judged by while training
  std::string source, sum;      // where the text is from, and its checksum
  bool stand_in = false;        // it is not what the recipe is meant for
};

// Names, one a line: a random tenth of them is the part "dev", another the part "test".
Recipe names_recipe(MakeTextModel make, const Request& request);
Language names_language(MakeTextModel make, const Request& request);
// One text: its last tenth is the part "validation".
Recipe text_recipe(MakeTextModel make, const Request& request);
Language text_language(MakeTextModel make, const Request& request);

// The model as a function of `context` ids, given as numbers, without its data.
std::vector<Part> names_parts(MakeTextModel make, const Request& request);
std::vector<Part> text_parts(MakeTextModel make, const Request& request);

// Gives the Context the states of the model, from the file `path`. ConfigError where they do not fit or are not finite.
void load_language(const data::Tensors& weights, const std::string& path, const Language& language, Context& ctx);

// A text of at most `tokens` tokens that follows a prompt; text number `number` of a seed. `each` is given every piece
// as soon as it is chosen.
struct SampleRequest {
  std::string prompt{};
  int64_t tokens = 100;
  double temperature = 1, top_p = 1, repetition_penalty = 1;
  int64_t top_k = 0;
  uint64_t seed = 1;
  uint64_t number = 0;
  std::function<bool(const std::string& piece)> each{};  // false ends the text
};
std::string sample(const Language& language, Generator& generator, const SampleRequest& request);

// The recipes' models.
TextModel names_bigram(int64_t symbols, const Wishes& wishes);
TextModel names_mlp(int64_t symbols, const Wishes& wishes);
TextModel names_mlp_bn(int64_t symbols, const Wishes& wishes);
TextModel names_wavenet(int64_t symbols, const Wishes& wishes);
TextModel names_transformer(int64_t symbols, const Wishes& wishes);
TextModel shakespeare_gpt(int64_t symbols, const Wishes& wishes);

}  // namespace caravan::app
