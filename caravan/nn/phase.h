// How a model is called. Phase, random step and precision are arguments of a call, handed down by every layer:
//
//     Tensor prediction = model(x);                                  // evaluation
//     Phase phase = training({.step = step});
//     Tensor loss = cross_entropy(model(x, phase), labels);
//     ctx.compile(train_step(loss, adam({})) & phase.updates());     // running statistics follow, wherever they are
//
// A decoding phase feeds a model one token at a time: attention keeps the keys and values of the tokens before in
// states, and positions go on (nn/decode.h; generate/ has the loop that writes text).
#pragma once

#include <memory>
#include <optional>

#include "caravan/tensor/program.h"
#include "caravan/tensor/tensor.h"

namespace caravan::nn {

// What a call of a model needs to know.
struct PhaseOptions {
  OptionalOperand step{};  // a scalar that changes from step to step; dropout needs one
  std::optional<DType>
      precision{};  // of the factors and results of linear maps, convolutions and attention; as they come if not given
  bool statistics = true;  // of batch norms follow in training; false: they stay as they are
};

// Which tokens a call in a decoding phase is given.
struct DecodingOptions {
  int64_t capacity = 0;              // how many positions the caches have
  int64_t prompt = 0;                // the number of tokens of each prompt, from position 0 on; 0: one token
  std::optional<Index> at{};         // the position of that one token
  OptionalOperand first{};           // `... |`: where each sequence begins, if shorter prompts are padded on the left
  std::optional<DType> precision{};  // as in PhaseOptions
};

// A cheap handle: copies of a training phase collect into the same updates.
class Phase {
 public:
  Phase() = default;  // evaluation, as precise as the parameters

  bool training() const { return updates_ && !decoding_; }             // otherwise this is an evaluation
  const DecodingOptions* decoding() const { return decoding_.get(); }  // null if the model sees whole sequences
  bool keeps_statistics() const { return options_.statistics; }        // in training they follow
  // The step that was given; without one an error names the layer that needs it.
  const Operand& step(const std::string& layer) const;
  Tensor in_precision(Operand x) const;  // x in the precision that products are computed from

  // Layers with state read and write it here, so that a layer that is called twice updates twice.
  Tensor now(const Tensor& state) const;
  void update(const Tensor& state, Operand value) const;  // what the program of updates() will assign to the state
  Program updates() const;  // state := value, for every state that the calls of this phase have updated

 private:
  friend Phase training(const PhaseOptions& options);
  friend Phase evaluation(const PhaseOptions& options);
  friend Phase decoding(const DecodingOptions& options);
  PhaseOptions options_;
  std::shared_ptr<const DecodingOptions> decoding_;
  std::shared_ptr<std::vector<Program::Assignment>> updates_;  // none in evaluation
};

// Dropout drops, batch norm uses the batch and updates its statistics.
Phase training(const PhaseOptions& options = {});
Phase evaluation(const PhaseOptions& options = {});  // nothing is dropped, batch norm uses its running statistics
// A prompt, or one token more, of sequences whose earlier tokens are remembered in states. The caller runs updates().
Phase decoding(const DecodingOptions& options);

Tensor at_least_f32(Operand x);  // x, as f32 if it is f16 or bf16: sums over many elements need it

}  // namespace caravan::nn
