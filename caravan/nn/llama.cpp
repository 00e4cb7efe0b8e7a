#include "caravan/nn/llama.h"

#include "caravan/nn/advice.h"
#include "caravan/tensor/functions.h"

namespace caravan::nn {

namespace {

AttentionOptions attention_options(const LlamaOptions& o) {
  return {.dim = o.dim,
          .heads = o.heads,
          .kv_heads = o.kv_heads,
          .causal = true,
          .proj_bias = false,
          .rotary = RotaryOptions{.base = o.rotary_base},
          .init = o.init,
          .dtype = o.dtype};
}
SwigluOptions feed_forward_options(const LlamaOptions& o) {
  return {.hidden = o.hidden ? o.hidden : o.dim * 8 / 3, .output = o.dim, .init = o.init, .dtype = o.dtype};
}

}  // namespace

LlamaBlock::LlamaBlock(const std::string& name, const LlamaOptions& o, Source where)
    : ln1(name + ".ln1", {o.epsilon, o.dtype}, where),
      ln2(name + ".ln2", {o.epsilon, o.dtype}, where),
      attn(name + ".attn", attention_options(o), where),
      mlp(name + ".mlp", feed_forward_options(o), where) {}
Tensor LlamaBlock::operator()(Operand x, const Phase& phase) const {
  const Call call = Call::layer("llama_block " + ln1.name.substr(0, ln1.name.rfind('.')), {{"x", x}}, is_any_sequence);
  x.tensor = x + Operand(attn(Operand(ln1(x), x.where), phase), x.where);
  return x + Operand(mlp(Operand(ln2(x), x.where), phase), x.where);
}

Llama::Llama(const LlamaOptions& o, const std::string& prefix, Source where)
    : options(o),
      tok(prefix + "tok", {o.vocab, o.dim, o.init, o.dtype}, where),
      ln(prefix + "ln", {o.epsilon, o.dtype}, where) {
  for (int64_t i = 0; i < o.layers; ++i) blocks.emplace_back(prefix + "blocks." + std::to_string(i), o, where);
  if (!o.tied)
    head.emplace(prefix + "head", LinearOptions{.output = {o.vocab}, .bias = false, .init = o.init, .dtype = o.dtype},
                 where);
}
Tensor Llama::operator()(Operand ids, const Phase& phase) const {
  const Call call = Call::layer("llama", {{"the ids", ids}});
  Operand x(tok(ids), ids.where);
  for (const LlamaBlock& block : blocks) x.tensor = block(x, phase);
  x.tensor = ln(x);
  return head ? (*head)(x, phase) : tied_head(x, tok, phase);
}

}  // namespace caravan::nn
