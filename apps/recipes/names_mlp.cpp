// The next letter from the last three: letters as learned vectors, a hidden layer, logits (Bengio et al. 2003).
#include "apps/recipes/language.h"

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
  Tensor operator()(const Tensor& ids) const {
    Tensor x = einsum("..., t | c => ... | t, c", letters(ids));  // the vectors of a window, side by side
    return next(tanh(hidden(x)));
  }
};

}  // namespace

TextModel names_mlp(int64_t symbols, const Wishes&) {
  const LettersMlp model(symbols);
  return {.recipe = "names-mlp",
          .words = "3 letters as 10 numbers each, 200 tanh, logits",
          .context = kLetters,
          .logits = [model](const Tensor& ids, const nn::Phase&) { return model(ids); }};
}

}  // namespace caravan::app
