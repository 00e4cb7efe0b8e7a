// The kinds of vocabularies as JSON objects, {"tokenizer": KIND, ...}: the text of a Tokenizer.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "caravan/data/tokenizer.h"

namespace caravan::data {

inline constexpr const char *kCharacters = "characters", *kGpt2 = "gpt2", *kLlama = "llama";
// From an object of this kind, which `file` has.
Tokenizer characters_of(const nlohmann::json& object, const std::string& file);
Tokenizer gpt2_of(const nlohmann::json& object, const std::string& file);
Tokenizer llama_of(const nlohmann::json& object, const std::string& file);

// The texts of the list `name` of an object; refused where it is something else.
std::vector<std::string> texts_of(const nlohmann::json& object, const char* name, const std::string& file);

[[noreturn]] void refuse_tokenizer(const std::string& file, const std::string& problem);  // throws ConfigError

}  // namespace caravan::data
