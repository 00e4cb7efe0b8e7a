// The kinds of vocabularies as JSON objects, {"tokenizer": KIND, ...}: the text of a Tokenizer.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "caravan/data/tokenizer.h"

namespace caravan::data {

inline constexpr const char* kCharacters = "characters";
Tokenizer characters_of(const nlohmann::json& object, const std::string& file);  // an object of this kind

[[noreturn]] void refuse_tokenizer(const std::string& file, const std::string& problem);  // throws ConfigError

}  // namespace caravan::data
