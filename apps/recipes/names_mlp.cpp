// The next letter from the last three: letters as learned vectors, a hidden layer, logits (Bengio et al. 2003).
#include "apps/recipes/language_pictures.h"

namespace caravan::app {

namespace {

constexpr int64_t kLetters = 3;

struct LettersMlp {
  nn::Embedding letters;
  nn::Linear hidden, next;
  explicit LettersMlp(int64_t symbols)
      : letters("letters", {.num = symbols, .dim = 10}),
        hidden("hidden", {.output = {200}, .init = kaiming_normal(5.0 / 3)}),
        next("next", {.output = {symbols}, .init = normal_init(0, 0.01)}) {}
  Tensor activations(const Tensor& ids, const nn::Phase& phase = {}) const { return tanh(hidden(letters(ids), phase)); }
  Tensor operator()(const Tensor& ids, const nn::Phase& phase) const { return next(activations(ids, phase), phase); }
};

}  // namespace

TextModel names_mlp(int64_t symbols, const Wishes&) {
  const LettersMlp model(symbols);
  return {.recipe = "names-mlp",
          .words = "3 letters as 10 numbers each, 200 tanh, logits",
          .context = kLetters,
          .logits = model,
          .more = [model](Findings& found, const TextData& data, Context& ctx) {
            add_pictures(found, [=] {
              std::vector<Picture> out = hidden_pictures(
                  ctx, data, [=](const Tensor& ids) { return model.activations(ids); },
                  [=](const Tensor& h) { return model.next(h); });
              out.push_back(embedding_picture(ctx, model.letters, data.tokenizer));
              return out;
            });
          }};
}

}  // namespace caravan::app
