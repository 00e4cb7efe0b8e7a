#include "apps/pretrained_language.h"

#include <fmt/format.h>

#include <filesystem>

#include "caravan/base/error.h"
#include "caravan/generate/generator.h"
#include "caravan/pretrained/gpt2.h"
#include "caravan/pretrained/llama.h"

namespace caravan::app {

namespace {

std::string tokenizer_beside(const std::string& file, int64_t vocab) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  const std::string names[] = {"tokenizer.bin", fmt::format("tok{}.bin", vocab)};
  for (const std::string& name : names)
    if (std::filesystem::exists(folder / name)) return (folder / name).string();
  throw ConfigError(
      fmt::format("there is no {} or {} beside {}; name the vocabulary with --tokenizer.", names[0], names[1], file));
}

void check_size(const data::Tokenizer& tokenizer, const std::string& path, int64_t vocab, const std::string& model) {
  if (tokenizer.size() != vocab)
    throw ConfigError(fmt::format("the vocabulary {} has {} ids, but the model {} has {}; they do not belong together.",
                                  path, tokenizer.size(), model, vocab));
}

template <class Model>
Language language_of(const data::Tokenizer& tokenizer, const Model& model, int64_t context) {
  Language out{.tokenizer = tokenizer};
  out.longest = context;
  out.called = model(Array({.batch = {1, 1}}, DType::i32));
  out.generator = [model, context](const Context& ctx) { return Generator(ctx, model, {.capacity = context}, {}); };
  return out;
}

}  // namespace

PretrainedLanguage llama_language(const std::string& file, const std::string& tokenizer) {
  pretrained::Llama2c found = pretrained::read_llama2c(file);
  const std::string path = tokenizer.empty() ? tokenizer_beside(file, found.options.vocab) : tokenizer;
  const data::Tokenizer words = data::read_llama_tokenizer(path);
  check_size(words, path, found.options.vocab, file);
  Language language = language_of(words, nn::Llama(found.options, "", {}), found.options.ctx);
  language.first = {*words.start()}, --language.longest;
  language.end = words.start();  // as llama2.c does: a text ends where the next one begins
  language.blank_first = true;
  return {"llama", file, std::move(language), std::move(found.weights)};
}

PretrainedLanguage gpt2_language(const std::string& folder) {
  pretrained::Gpt2 found = pretrained::read_gpt2(folder);
  const data::Tokenizer pieces = data::read_gpt2_tokenizer(folder);
  check_size(pieces, folder, found.options.vocab, folder);
  Language language = language_of(pieces, nn::Gpt(found.options, "", {}), found.options.ctx);
  language.end = pieces.end();
  return {"gpt2", folder, std::move(language), std::move(found.weights)};
}

}  // namespace caravan::app
