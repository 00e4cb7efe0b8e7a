// The next character of a play from up to 256 before it: the GPT of nanoGPT, and a small one for a CPU.
#include <fmt/format.h>

#include "apps/recipes/language_pictures.h"

namespace caravan::app {

TextModel shakespeare_gpt(int64_t symbols, const Wishes& wishes) {
  const bool large = wishes.size == "large";
  nn::GptOptions options{.vocab = symbols, .ctx = 64, .dim = 128, .heads = 4, .layers = 4};
  if (large) options.ctx = 256, options.dim = 384, options.heads = 6, options.layers = 6, options.dropout = 0.2;
  const nn::Gpt gpt(options);
  TextModel out{.recipe = "shakespeare-gpt",
                .words = fmt::format("a GPT of {} layers, {} wide, {} heads, for {} characters", options.layers,
                                     options.dim, options.heads, options.ctx),
                .context = options.ctx,
                .window = false,
                .logits = [gpt](const Tensor& ids, const nn::Phase& phase) { return gpt(ids, phase); },
                .clip = 1};
  out.more = [gpt](Findings& found, const TextData& data, Context& ctx) {
    add_pictures(found, [=, text = found.samples[0]] {
      std::vector<Picture> out = attention_pictures(ctx, gpt, data.tokenizer, text, 30);
      out.push_back(embedding_picture(ctx, gpt.tok, data.tokenizer));
      return out;
    });
  };
  if (large) {  // 5,000 steps
    out.defaults = find_recipe("shakespeare-gpt").defaults;
    out.defaults->batch = 64, out.defaults->epochs = 82;
  }
  return out;
}

}  // namespace caravan::app
