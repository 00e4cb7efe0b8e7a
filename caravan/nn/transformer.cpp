#include "caravan/nn/transformer.h"

#include "caravan/nn/advice.h"
#include "caravan/tensor/functions.h"

namespace caravan::nn {

namespace {

// A part of a block: x + drop(f(norm(x))), or norm(x + drop(f(x))).
template <class Function>
Tensor added(Operand x, bool pre_norm, const LayerNorm& norm, const Dropout& drop, const Phase& phase, Function f) {
  Operand in(pre_norm ? norm(x) : x.tensor, x.where);
  Tensor sum = x + Operand(drop(f(in), phase), x.where);
  return pre_norm ? sum : norm(sum);
}

AttentionOptions attention_options(const TransformerOptions& o) {
  return {.dim = o.dim,
          .heads = o.heads,
          .kv_heads = o.kv_heads,
          .causal = o.causal,
          .bias = o.attention_bias,
          .dropout = o.dropout,
          .rotary = o.rotary,
          .init = o.init,
          .dtype = o.dtype};
}
AttentionOptions causal(AttentionOptions o, bool is) {
  o.causal = is;
  if (!is) o.rotary.reset();  // positions of the memory are not those of x
  return o;
}
LinearOptions wide(const TransformerOptions& o) {
  return {.output = {o.hidden ? o.hidden : 4 * o.dim}, .init = o.init, .dtype = o.dtype};
}
// NAME of NAME.ln1
std::string name_of(const LayerNorm& norm) { return norm.name.substr(0, norm.name.rfind('.')); }
LinearOptions narrow(const TransformerOptions& o) { return {.output = {o.dim}, .init = o.init, .dtype = o.dtype}; }

}  // namespace

EncoderBlock::EncoderBlock(const std::string& name, const TransformerOptions& o, Source where)
    : pre_norm(o.pre_norm),
      ln1(name + ".ln1", {.dtype = o.dtype}, where),
      ln2(name + ".ln2", {.dtype = o.dtype}, where),
      attn(name + ".attn", attention_options(o), where),
      up(name + ".up", wide(o), where),
      down(name + ".down", narrow(o), where),
      activation(o.activation),
      drop1(name + ".drop1", o.dropout, where),
      drop2(name + ".drop2", o.dropout, where) {}
Tensor EncoderBlock::operator()(Operand x, const OptionalOperand& mask, const Phase& phase) const {
  const Call call = Call::layer("encoder_block " + name_of(ln1), {{"x", x}}, is_any_sequence);
  x.tensor = added(x, pre_norm, ln1, drop1, phase, [&](Operand y) { return attn(y, mask, phase); });
  return added(x, pre_norm, ln2, drop2, phase, [&](Operand y) { return down(activation(up(y, phase), phase), phase); });
}

DecoderBlock::DecoderBlock(const std::string& name, const TransformerOptions& o, Source where)
    : pre_norm(o.pre_norm),
      ln1(name + ".ln1", {.dtype = o.dtype}, where),
      ln2(name + ".ln2", {.dtype = o.dtype}, where),
      ln3(name + ".ln3", {.dtype = o.dtype}, where),
      attn(name + ".attn", causal(attention_options(o), true), where),
      cross(name + ".cross", causal(attention_options(o), false), where),
      up(name + ".up", wide(o), where),
      down(name + ".down", narrow(o), where),
      activation(o.activation),
      drop1(name + ".drop1", o.dropout, where),
      drop2(name + ".drop2", o.dropout, where),
      drop3(name + ".drop3", o.dropout, where) {}
Tensor DecoderBlock::operator()(Operand x, Operand memory, const OptionalOperand& memory_mask,
                                const Phase& phase) const {
  const Call call = Call::layer("decoder_block " + name_of(ln1), {{"x", x}, {"the memory", memory}}, is_any_sequence);
  x.tensor = added(x, pre_norm, ln1, drop1, phase, [&](Operand y) { return attn(y, phase); });
  x.tensor = added(x, pre_norm, ln2, drop2, phase, [&](Operand y) { return cross(y, memory, memory_mask, phase); });
  return added(x, pre_norm, ln3, drop3, phase, [&](Operand y) { return down(activation(up(y, phase), phase), phase); });
}

Gpt::Gpt(const GptOptions& o, const std::string& prefix, Source where)
    : tok(prefix + "tok", {o.vocab, o.dim, o.init, o.dtype}, where),
      pos(prefix + "pos", {o.ctx, o.dim, o.init, o.dtype}, where),
      ln(prefix + "ln", {.dtype = o.dtype}, where),
      dropout(prefix + "dropout", o.dropout, where) {
  for (int64_t i = 0; i < o.layers; ++i)
    blocks.emplace_back(prefix + "blocks." + std::to_string(i),
                        TransformerOptions{.dim = o.dim,
                                           .heads = o.heads,
                                           .causal = true,
                                           .attention_bias = o.attention_bias,
                                           .dropout = o.dropout,
                                           .activation = GeluTanh(),
                                           .init = o.init,
                                           .dtype = o.dtype},
                        where);
  if (!o.tied)
    head.emplace(prefix + "head",
                 LinearOptions{.output = {o.vocab}, .bias = o.head_bias, .init = o.init, .dtype = o.dtype}, where);
}
Tensor Gpt::operator()(Operand ids, const Phase& phase) const {
  const Call call = Call::layer("gpt", {{"the ids", ids}});
  Operand x(dropout(pos(Operand(tok(ids), ids.where), phase), phase), ids.where);
  for (const EncoderBlock& block : blocks) x.tensor = block(x, phase);
  x.tensor = ln(x);
  return head ? (*head)(x, phase) : tied_head(x, tok, phase);
}

}  // namespace caravan::nn
