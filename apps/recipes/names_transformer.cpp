// The next letter from all before it: a small GPT, whose attention looks back over a name.
#include "apps/recipes/language_pictures.h"

namespace caravan::app {

TextModel names_transformer(int64_t symbols, const Wishes&) {
  const nn::Gpt gpt({.vocab = symbols, .ctx = 16, .dim = 64, .heads = 4, .layers = 4});
  return {.recipe = "names-transformer",
          .words = "a GPT of 4 layers, 64 wide, 4 heads, for 16 letters",
          .context = 16,
          .window = false,
          .logits = [gpt](const Tensor& ids, const nn::Phase& phase) { return gpt(ids, phase); },
          .clip = 1,
          .more =
              [gpt](Findings& found, const TextData& data, Context& ctx) {
                add_pictures(found, [=, name = found.samples[0]] {
                  std::vector<Picture> out = attention_pictures(ctx, gpt, data.tokenizer, name, 16);
                  out.push_back(embedding_picture(ctx, gpt.tok, data.tokenizer));
                  return out;
                });
              }};
}

}  // namespace caravan::app
