// The classes of characters by which GPT-2 splits text.
#pragma once

#include <cstdint>

namespace caravan::data {

enum class CharacterClass : uint8_t { letter, number, space, other };  // \p{L}, \p{N}, \s, and all others

CharacterClass character_class(uint32_t code);  // of a code point

}  // namespace caravan::data
