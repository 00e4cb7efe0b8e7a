// Transformer blocks over sequences `..., t | c`, and the GPT made of them.
#pragma once

#include "caravan/nn/attention.h"
#include "caravan/nn/norm.h"

namespace caravan::nn {

struct TransformerOptions {
  int64_t dim = 0, heads = 1, kv_heads = 0;
  int64_t hidden = 0;  // width of the feed-forward layer; 0: four times dim
  bool causal = false;
  bool pre_norm = true;  // x + f(norm(x)); otherwise norm(x + f(x))
  bool attention_bias = false;
  double dropout = 0;
  Layer activation = Gelu();
  std::optional<RotaryOptions> rotary{};
  Init init{};
  DType dtype = DType::f32;
};

// Self-attention, then up and down: NAME.{ln1, attn, ln2, up, down}. With `.causal` it is the block of a GPT.
struct EncoderBlock {
  bool pre_norm;
  LayerNorm ln1, ln2;
  SelfAttention attn;
  Linear up, down;
  Layer activation;
  Dropout drop1, drop2;
  EncoderBlock(const std::string& name, const TransformerOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const { return (*this)(x, std::nullopt, phase); }
  Tensor operator()(Operand x, const std::optional<Operand>& mask, const Phase& phase = {}) const;
};

// Causal self-attention, attention to a memory, then up and down: NAME.{ln1, attn, ln2, cross, ln3, up, down}.
struct DecoderBlock {
  bool pre_norm;
  LayerNorm ln1, ln2, ln3;
  SelfAttention attn;
  CrossAttention cross;
  Linear up, down;
  Layer activation;
  Dropout drop1, drop2, drop3;
  DecoderBlock(const std::string& name, const TransformerOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, Operand memory, const Phase& phase = {}) const {
    return (*this)(x, memory, std::nullopt, phase);
  }
  Tensor operator()(Operand x, Operand memory, const std::optional<Operand>& memory_mask,
                    const Phase& phase = {}) const;
};

// Ids `..., t |` to logits `..., t | vocab`: pre-norm blocks, learned positions, the GELU of GPT-2.
struct GptOptions {
  int64_t vocab = 0, ctx = 0, dim = 0, heads = 1, layers = 1;
  bool tied = false;  // the head is the token table
  bool head_bias = false;
  double dropout = 0;
  Init init = normal_init(0, 0.02);
  DType dtype = DType::f32;
};
struct Gpt {
  Embedding tok;
  LearnedPositions pos;
  std::vector<EncoderBlock> blocks;  // PREFIXblocks.0, ...
  LayerNorm ln;
  std::optional<Linear> head;
  Dropout dropout;
  explicit Gpt(const GptOptions& options, const std::string& prefix = "", Source where = Source::here());
  Tensor operator()(Operand ids, const Phase& phase = {}) const;
};

}  // namespace caravan::nn
