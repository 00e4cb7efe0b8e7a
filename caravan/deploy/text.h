// What the C file of a language model has beside its step: the text of every token, the choice of the next one, and a
// main that writes texts.
#pragma once

#include <string>

#include "caravan/deploy/c99.h"

namespace caravan::deploy {

// The step that the text is written around.
struct StepFacts {
  std::string prefix, macro;          // "names", "NAMES"
  bool weights_inside = true;         // otherwise every function takes them first
  std::string load;                   // what main does to have them
  bool state = false, index = false;  // whether run takes a state, and the position of the token
};
struct TextCode {
  std::string declarations, definitions;
  std::string main;
};
TextCode text_code(const CText& text, const StepFacts& step);

}  // namespace caravan::deploy
