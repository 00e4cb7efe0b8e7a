// Embeddings of ids, and positions. Sequences are `..., t | c`: the time is the last batch axis.
#pragma once

#include "caravan/nn/phase.h"

namespace caravan::nn {

// The size of a table of vectors.
struct EmbeddingOptions {
  int64_t num = 0, dim = 0;   // number of vectors (ids are 0 .. num - 1), and their length
  Init init = normal_init();  // how the table is initialised
  DType dtype = DType::f32;   // the precision of the parameters
};
// Rows of NAME.weight (`num | dim`: a row is contiguous) by ids of any shape. Its gradient adds in a fixed order.
struct Embedding {
  std::string name;  // the layer's name, which its parameters' names start with
  Tensor weight;     // the parameter NAME.weight
  Embedding(std::string name, const EmbeddingOptions& options, Source where = Source::here());
  Tensor operator()(Operand ids) const;
};

// Logits of all ids, `... | num`, from `... | dim`, by the weights of the table itself.
Tensor tied_head(Operand x, const Embedding& table, const Phase& phase = {});

// x plus a vector for each position. Learned: rows of NAME.weight, at most `num` positions.
struct LearnedPositions {
  Embedding table;  // one vector for each position
  LearnedPositions(std::string name, const EmbeddingOptions& options, Source where = Source::here())
      : table(std::move(name), options, where) {}
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};
// Sines and cosines of t / base^(2p / c) at channels 2p and 2p + 1 (Vaswani et al. 2017).
struct SinusoidalPositions {
  double base = 10000;  // the larger, the slower the slowest wave
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};

// Pairs of channels turn by the angle t / base^(p / pairs) (Su et al. 2021), in queries and keys `..., t | heads, c`.
struct RotaryOptions {
  double base = 10000;      // the slowest wave has this period, divided by 2 pi
  bool halves = false;      // pair channel p with p + c/2, as Llama's checkpoints do; otherwise 2p with 2p + 1
  OptionalOperand first{};  // the position of t = 0; a scalar
};
// x with its pairs of channels turned. In a decoding phase positions go on.
Tensor rotary(Operand x, const RotaryOptions& options = {}, const Phase& phase = {});

}  // namespace caravan::nn
