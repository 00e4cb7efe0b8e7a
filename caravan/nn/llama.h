// The language model of Llama (Touvron et al. 2023): pre-norm blocks with RMS norms, rotary positions, a gated
// feed-forward layer, and heads of keys and values that several heads of queries share.
#pragma once

#include "caravan/nn/attention.h"
#include "caravan/nn/norm.h"

namespace caravan::nn {

// The sizes of the model.
struct LlamaOptions {
  // Number of ids, longest sequence, channels, heads of queries, blocks.
  int64_t vocab = 0, ctx = 0, dim = 0, heads = 1, layers = 1;
  int64_t kv_heads = 0;              // heads of keys and values; 0: as many as of queries
  int64_t hidden = 0;                // width of the feed-forward layer; 0: 8/3 of dim
  bool tied = true;                  // the head is the token table
  double rotary_base = 10000;        // of the positions
  double epsilon = 1e-5;             // of the norms
  Init init = normal_init(0, 0.02);  // how the weights are initialised
  DType dtype = DType::f32;          // the precision of the parameters
};

// x + attention(norm(x)), then x + feed-forward(norm(x)): NAME.{ln1, attn, ln2, mlp}.
struct LlamaBlock {
  RmsNorm ln1, ln2;    // before the attention, before the feed-forward layer
  SelfAttention attn;  // causal, with rotary positions
  Swiglu mlp;          // the gated feed-forward layer
  LlamaBlock(const std::string& name, const LlamaOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};

// Ids `..., t |` to logits `..., t | vocab`.
struct Llama {
  LlamaOptions options;            // as given
  Embedding tok;                   // the table of tokens
  std::vector<LlamaBlock> blocks;  // PREFIXblocks.0, ...
  RmsNorm ln;                      // after the last block
  std::optional<Linear> head;      // to the logits; none if tied
  explicit Llama(const LlamaOptions& options, const std::string& prefix = "", Source where = Source::here());
  Tensor operator()(Operand ids, const Phase& phase = {}) const;
};

}  // namespace caravan::nn
