// Text, or any sequence of tokens, from a model that predicts the next one.
//
//     nn::Gpt gpt({.vocab = 65, .ctx = 256, .dim = 128, .heads = 4, .layers = 4});
//     ...                                                           // trained in ctx, or load_checkpoint(file, ctx)
//     Generator generate(ctx, gpt, {.capacity = 256});
//     Ids more = generate(vocabulary.encode("ROMEO:"), {.tokens = 200, .sampling = {.temperature = 0.8}});
//
// A model is what takes ids `..., t |` and a phase and gives logits `..., t | vocab`: nn::Gpt, or one of your own. If
// its attention and positions are those of nn/, or use nn/decode.h, every token after the prompt costs one step of one
// token. A model of the last few tokens alone (an MLP, a WaveNet) is wrapped into a Window.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "caravan/generate/sampler.h"
#include "caravan/nn/phase.h"
#include "caravan/runtime/context.h"

namespace caravan {

using Ids = std::vector<int32_t>;  // tokens, by their numbers in a vocabulary

// Of a model that generates.
struct GeneratorOptions {
  int64_t capacity = 0;              // the longest sequence that the model sees: its context
  bool cache = true;                 // false: every token computes all before it again, for comparison
  std::optional<DType> precision{};  // of products, as in PhaseOptions
  int threads = 1;                   // that run a step
};

// Of one call.
struct GenerateOptions {
  int64_t tokens = 100;          // at most so many more
  SamplingOptions sampling{};    // how they are chosen
  std::optional<int32_t> end{};  // a sequence ends before this token, which is not part of the result
  // Called with every token as soon as it is chosen, for text that appears while it is written. False ends the
  // sequence.
  std::function<bool(int64_t sequence, int32_t id)> each{};
};

// A model that sees the last `size` tokens alone, `... | size` as data::contexts gives them, and gives logits
// `... | vocab` of the next one. Before the first token it sees `before`; of a prompt that is longer than `size` it
// sees the last tokens, as of any text. The tokens are a state, so one step takes one token and gives the next logits.
class Window {
 public:
  template <class F>
  Window(F model, int64_t size, int32_t before = 0)
      : model_([model = std::move(model)](const Tensor& ids) { return model(ids); }), size_(size), before_(before) {}

  Tensor operator()(Operand ids, const nn::Phase& phase) const;  // in a decoding phase, one token
  int64_t size() const { return size_; }                         // of the window
  int32_t before() const { return before_; }                     // what is seen before the first token

 private:
  std::function<Tensor(const Tensor&)> model_;
  int64_t size_;
  int32_t before_;
};

// Compiles a model for prompts and for single tokens, and generates. It reads the weights of a Context without copying
// them, so that Context cannot be trained while it lives.
//
// Prompts of a batch may have different lengths. Prompts are compiled for lengths of 8, 16, 32, .., once each. When a
// sequence reaches the capacity, the model goes on with the last half of it.
class Generator {
 public:
  // model(ids, phase) -> logits.
  template <class F>
  requires(!std::same_as<F, Window>)
      Generator(const Context& ctx, F model, const GeneratorOptions& options, Source where = Source::here())
      : Generator(ctx, Model([model = std::move(model)](const Operand& ids, const nn::Phase& phase) {
                    if constexpr (std::is_invocable_v<const F&, Operand, const nn::Phase&>)
                      return model(ids, phase);
                    else
                      return model(ids.tensor, phase);
                  }),
                  {}, options, where) {}
  Generator(const Context& ctx, const Window& model, const GeneratorOptions& options = {},
            Source where = Source::here());
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;
  ~Generator();

  // The tokens that follow the prompt.
  Ids operator()(const Ids& prompt, const GenerateOptions& options = {}, Source where = Source::here());
  // For several prompts at once.
  std::vector<Ids> batch(const std::vector<Ids>& prompts, const GenerateOptions& options = {},
                         Source where = Source::here());

 private:
  using Model = std::function<Tensor(const Operand& ids, const nn::Phase& phase)>;
  struct Impl;
  Generator(const Context& ctx, Model model, Ids window, const GeneratorOptions& options, Source where);
  std::unique_ptr<Impl> impl_;
};

}  // namespace caravan
