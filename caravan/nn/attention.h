// Attention over sequences `..., t | c`, written in the notation.
#pragma once

#include <optional>

#include "caravan/nn/embedding.h"
#include "caravan/nn/linear.h"

namespace caravan::nn {

// Which positions a query sees.
struct AttendOptions {
  bool causal = false;               // position s sees the positions t <= s
  OptionalOperand mask{};            // true where s may see t: `..., s | t ->`, or with heads `..., s | t -> h, g`
  std::optional<Dropout> dropout{};  // drops attention weights in training
};
// softmax(q k^T / sqrt(d)) v: queries `..., s | heads, d`, keys and values `..., t | heads, d`. With fewer heads of
// keys than of queries, neighbouring queries share one (grouped-query attention). A position that sees nothing averages
// all.
Tensor attend(Operand q, Operand k, Operand v, const AttendOptions& options = {}, const Phase& phase = {});

// The sizes of an attention layer.
struct AttentionOptions {
  int64_t dim = 0, heads = 1, kv_heads = 0;  // channels; heads of queries; heads of keys and values (0: as many)
  bool causal = false;                       // see AttendOptions
  bool bias = false, proj_bias = true;       // of the maps to queries, keys and values; of the map to the output
  double dropout = 0;                        // the rate of dropout in training; 0: none
  std::optional<RotaryOptions> rotary{};     // turns queries and keys by their positions; none if not given
  Init init{};                               // how the weights are initialised
  DType dtype = DType::f32;                  // the precision of the parameters
};

// One projection NAME.qkv to the heads of queries, then keys, then values; then NAME.proj.
struct SelfAttention {
  AttentionOptions options;  // as given
  Linear qkv, proj;          // the maps to queries, keys and values, and from the heads to the output
  Dropout dropout;           // drops attention weights in training
  SelfAttention(const std::string& name, const AttentionOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const { return (*this)(x, std::nullopt, phase); }
  Tensor operator()(Operand x, const OptionalOperand& mask, const Phase& phase = {}) const;
};
// Queries from x by NAME.q, keys and values from the memory by NAME.kv; then NAME.proj.
struct CrossAttention {
  AttentionOptions options;  // as given
  Linear q, kv, proj;        // the maps to queries, to keys and values, and from the heads to the output
  Dropout dropout;           // what is left out in training
  CrossAttention(const std::string& name, const AttentionOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, Operand memory, const Phase& phase = {}) const {
    return (*this)(x, memory, std::nullopt, phase);
  }
  Tensor operator()(Operand x, Operand memory, const OptionalOperand& mask, const Phase& phase = {}) const;
};

}  // namespace caravan::nn
