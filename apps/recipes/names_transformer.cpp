// The next letter from all before it: a small GPT, whose attention looks back over a name.
#include "apps/recipes/language.h"

namespace caravan::app {

TextModel names_transformer(int64_t symbols, const Wishes&) {
  const nn::Gpt gpt({.vocab = symbols, .ctx = 16, .dim = 64, .heads = 4, .layers = 4});
  return {.recipe = "names-transformer",
          .words = "a GPT of 4 layers, 64 wide, 4 heads, for 16 letters",
          .context = 16,
          .window = false,
          .logits = gpt,
          .clip = 1};
}

}  // namespace caravan::app
