// Chooses the next token from a model's logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "caravan/base/source.h"

namespace caravan {

// How tokens are chosen. The defaults draw from the model's own probabilities.
struct SamplingOptions {
  double temperature = 1;  // logits are divided by it: below 1 likely tokens become likelier; 0: always the likeliest
  int64_t top_k = 0;       // only the k likeliest tokens; 0: all
  double top_p = 1;        // only the likeliest tokens that together reach this probability
  double repetition_penalty =
      1;              // tokens that the sequence has are made less likely: positive logits are divided by it
  uint64_t seed = 0;  // the same seed, the same tokens
};

// Chooses among tokens 0, 1, .. by logits. A choice depends on the seed, the sequence and the position alone, so a
// sequence is the same whatever others are generated beside it. It allocates nothing after its construction.
class Sampler {
 public:
  // ConfigError for options that make no sense, naming the line.
  Sampler(int64_t vocab, const SamplingOptions& options, Source where = Source::here());

  // A token for position `position` of sequence number `sequence`, which has the tokens `before` already.
  int32_t operator()(std::span<const float> logits, std::span<const int32_t> before, uint64_t sequence,
                     uint64_t position);
  const SamplingOptions& options() const { return options_; }  // as given

 private:
  SamplingOptions options_;
  std::vector<float> scores_;   // logits as they are changed
  std::vector<int32_t> order_;  // tokens, the likeliest first, as far as needed
  std::vector<bool> seen_;      // by token: does the sequence have it?
};

}  // namespace caravan
