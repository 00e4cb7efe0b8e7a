// The next letter from the last eight, fused two by two in three levels, as in WaveNet (van den Oord et al. 2016).
#include <fmt/format.h>

#include "apps/recipes/language_pictures.h"

namespace caravan::app {

namespace {

struct Wavenet {
  // Two neighbours become one.
  struct Level {
    nn::Linear fuse;
    nn::BatchNorm norm;
    Tensor operator()(const Tensor& x, const nn::Phase& phase) const {
      Tensor pairs = einsum("..., t&two | c => ..., t | two, c", x, {{"two", 2}});
      return tanh(norm(fuse(pairs, phase), phase));
    }
  };
  nn::Embedding letters;
  std::vector<Level> levels;
  nn::Linear next;
  explicit Wavenet(int64_t symbols)
      : letters("letters", {.num = symbols, .dim = 24}),
        next("next", {.output = {symbols}, .init = normal_init(0, 0.01)}) {
    for (const char* name : {"level1", "level2", "level3"})
      levels.push_back(
          {nn::Linear(name, {.output = {128}, .bias = false}), nn::BatchNorm(fmt::format("{}.norm", name))});
  }
  Tensor operator()(const Tensor& ids, const nn::Phase& phase) const {
    Tensor x = letters(einsum("... | t => ..., t |", ids));
    for (const Level& level : levels) x = level(x, phase);
    return next(einsum("..., _ | c => ... | c", x), phase);
  }
};

}  // namespace

TextModel names_wavenet(int64_t symbols, const Wishes&) {
  const Wavenet model(symbols);
  return {.recipe = "names-wavenet",
          .words = "8 letters as 24 numbers each, fused by twos in three levels of 128 tanh, logits",
          .context = 8,
          .logits = model,
          .more = [model](Findings& found, const TextData& data, Context& ctx) {
            add_pictures(found, [=]() -> std::vector<Picture> {
              return {embedding_picture(ctx, model.letters, data.tokenizer)};
            });
          }};
}

}  // namespace caravan::app
