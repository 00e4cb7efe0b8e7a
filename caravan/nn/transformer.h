// Transformer blocks over sequences `..., t | c`, and the GPT made of them.
#pragma once

#include "caravan/nn/attention.h"
#include "caravan/nn/norm.h"

namespace caravan::nn {

// The sizes of a block.
struct TransformerOptions {
  int64_t dim = 0, heads = 1, kv_heads = 0;  // channels, heads of queries, and of keys and values (0: as many)
  int64_t hidden = 0;                        // width of the feed-forward layer; 0: four times dim
  bool causal = false;                       // a position sees itself and those before it alone
  bool pre_norm = true;                      // x + f(norm(x)); otherwise norm(x + f(x))
  bool attention_bias = false;               // of the map to queries, keys and values
  double dropout = 0;                        // the rate of dropout in training; 0: none
  Layer activation = Gelu();                 // of the feed-forward layer
  std::optional<RotaryOptions> rotary{};     // turns queries and keys by their positions; none if not given
  Init init{};                               // how the weights are initialised
  DType dtype = DType::f32;                  // the precision of the parameters
};

// Self-attention, then up and down: NAME.{ln1, attn, ln2, up, down}. With `.causal` it is the block of a GPT.
struct EncoderBlock {
  bool pre_norm;         // whether norms come before the maps or after the sums
  LayerNorm ln1, ln2;    // of the attention, of the feed-forward layer
  SelfAttention attn;    // the attention of the sequence to itself
  Linear up, down;       // the feed-forward layer: to its width and back
  Layer activation;      // applied between the linear maps
  Dropout drop1, drop2;  // after the attention, after the feed-forward layer
  EncoderBlock(const std::string& name, const TransformerOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const { return (*this)(x, std::nullopt, phase); }
  Tensor operator()(Operand x, const OptionalOperand& mask, const Phase& phase = {}) const;
};

// Causal self-attention, attention to a memory, then up and down: NAME.{ln1, attn, ln2, cross, ln3, up, down}.
struct DecoderBlock {
  bool pre_norm;                // whether norms come before the maps or after the sums
  LayerNorm ln1, ln2, ln3;      // of both attentions and of the feed-forward layer
  SelfAttention attn;           // the attention of the sequence to itself
  CrossAttention cross;         // the attention to the memory
  Linear up, down;              // the feed-forward layer: to its width and back
  Layer activation;             // applied between the linear maps
  Dropout drop1, drop2, drop3;  // after both attentions and the feed-forward layer
  DecoderBlock(const std::string& name, const TransformerOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, Operand memory, const Phase& phase = {}) const {
    return (*this)(x, memory, std::nullopt, phase);
  }
  Tensor operator()(Operand x, Operand memory, const OptionalOperand& memory_mask, const Phase& phase = {}) const;
};

// Ids `..., t |` to logits `..., t | vocab`: pre-norm blocks, learned positions, the GELU of GPT-2.
struct GptOptions {
  // Number of ids, longest sequence, channels, heads, blocks.
  int64_t vocab = 0, ctx = 0, dim = 0, heads = 1, layers = 1;
  bool tied = false;                 // the head is the token table
  bool head_bias = false;            // of the map to the logits
  bool attention_bias = false;       // of the maps to queries, keys and values; GPT-2 has one
  double dropout = 0;                // the rate of dropout in training; 0: none
  Init init = normal_init(0, 0.02);  // how the weights are initialised
  DType dtype = DType::f32;          // the precision of the parameters
};
// A language model: ids to logits.
struct Gpt {
  Embedding tok;                     // the table of tokens
  LearnedPositions pos;              // the table of positions
  std::vector<EncoderBlock> blocks;  // PREFIXblocks.0, ...
  LayerNorm ln;                      // after the last block
  std::optional<Linear> head;        // to the logits; none if tied
  Dropout dropout;                   // of the embeddings
  explicit Gpt(const GptOptions& options, const std::string& prefix = "", Source where = Source::here());
  Tensor operator()(Operand ids, const Phase& phase = {}) const;
};

}  // namespace caravan::nn
