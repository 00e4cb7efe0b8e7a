#include "caravan/data/tokenizer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "caravan/base/error.h"
#include "caravan/base/printable.h"
#include "caravan/data/json_text.h"
#include "caravan/data/vocabularies.h"

namespace caravan::data {

std::string Vocabulary::decode(std::span<const int32_t> ids) const {
  std::string out;
  for (const int32_t id : ids) out += piece(id);
  return out;
}
std::optional<int32_t> Vocabulary::start() const { return std::nullopt; }
std::optional<int32_t> Vocabulary::end() const { return std::nullopt; }

Tokenizer::Tokenizer(std::shared_ptr<const Vocabulary> vocabulary) : vocabulary_("a Tokenizer", std::move(vocabulary)) {
  if (size() < 1) throw ConfigError("a vocabulary without symbols has no texts.");
}

void Tokenizer::check(int32_t id) const {
  if (id < 0 || id >= size())
    throw StateError(fmt::format("{} is no id of the vocabulary, which has 0 to {}.", id, size() - 1));
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  for (const int32_t id : ids) check(id);
  return vocabulary_->decode(ids);
}

std::string Tokenizer::piece(int32_t id) const {
  check(id);
  return vocabulary_->piece(id);
}

void refuse_tokenizer(const std::string& file, const std::string& problem) {
  throw ConfigError(fmt::format("`{}` has no usable tokenizer: {}.", printable(file), problem));
}

std::vector<std::string> texts_of(const nlohmann::json& object, const char* name, const std::string& file) {
  const auto list = object.find(name);
  if (list == object.end() || !list->is_array()) refuse_tokenizer(file, fmt::format("it has no list of `{}`", name));
  std::vector<std::string> out;
  for (const nlohmann::json& value : *list) {
    if (!value.is_string()) refuse_tokenizer(file, fmt::format("its `{}` are not all texts", name));
    out.push_back(value.get<std::string>());
  }
  return out;
}

Tokenizer parse_tokenizer(std::string_view text, const std::string& file) {
  constexpr size_t kDeepest = 3, kLongestList = size_t(1) << 22;
  if (const auto problem = json_problem(text, kDeepest, kLongestList)) refuse_tokenizer(file, "its text " + *problem);
  const nlohmann::json object = nlohmann::json::parse(text);
  if (!object.is_object() || !object.contains("tokenizer") || !object.at("tokenizer").is_string())
    refuse_tokenizer(file, "its text is no object that says which `tokenizer` it is");
  const std::string& kind = object.at("tokenizer").get_ref<const std::string&>();
  if (kind == kCharacters) return characters_of(object, file);
  if (kind == kGpt2) return gpt2_of(object, file);
  if (kind == kLlama) return llama_of(object, file);
  refuse_tokenizer(file, fmt::format("there is no kind of tokenizer {}; there are {}, {} and {}", shown(kind),
                                     kCharacters, kGpt2, kLlama));
}

}  // namespace caravan::data
