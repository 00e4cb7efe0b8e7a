// names-mlp with batch norm before the tanh, so that the hidden layer is neither saturated nor idle at the start.
#include "apps/recipes/language_pictures.h"

namespace caravan::app {

namespace {

struct NormalizedMlp {
  nn::Embedding letters;
  nn::Linear hidden;  // without a bias: the norm would take it away again
  nn::BatchNorm norm{"norm"};
  nn::Linear next;
  explicit NormalizedMlp(int64_t symbols)
      : letters("letters", {.num = symbols, .dim = 10}),
        hidden("hidden", {.output = {200}, .bias = false, .init = kaiming_normal(5.0 / 3)}),
        next("next", {.output = {symbols}, .init = normal_init(0, 0.01)}) {}
  Tensor activations(const Tensor& ids, const nn::Phase& phase) const {
    return tanh(norm(hidden(letters(ids), phase), phase));
  }
  Tensor operator()(const Tensor& ids, const nn::Phase& phase) const { return next(activations(ids, phase), phase); }
};

}  // namespace

TextModel names_mlp_bn(int64_t symbols, const Wishes&) {
  const NormalizedMlp model(symbols);
  return {.recipe = "names-mlp-bn",
          .words = "3 letters as 10 numbers each, 200 batch norm tanh, logits",
          .context = 3,
          .logits = model,
          .more = [model](Findings& found, const TextData& data, Context& ctx) {
            add_pictures(found, [=] {
              const nn::Phase phase = nn::training({.statistics = false});
              std::vector<Picture> out = hidden_pictures(
                  ctx, data, [=](const Tensor& ids) { return model.activations(ids, phase); },
                  [=](const Tensor& h) { return model.next(h); });
              out.push_back(embedding_picture(ctx, model.letters, data.tokenizer));
              return out;
            });
          }};
}

}  // namespace caravan::app
