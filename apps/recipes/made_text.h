// Texts that stand in for names and for Shakespeare where those are not here: made by rules from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caravan::app {

inline constexpr const char* kMadeNames = "made-up names";
inline constexpr const char* kMadeText = "made-up verses";

std::vector<std::string> made_names(int64_t count, uint64_t seed);  // of two to four syllables, in small letters
std::string made_verses(int64_t lines, uint64_t seed);  // speakers who say simple sentences, a few lines at a time

}  // namespace caravan::app
