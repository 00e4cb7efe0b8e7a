#include "caravan/nn/recurrent.h"

#include "caravan/base/error.h"
#include "caravan/nn/advice.h"
#include "caravan/tensor/call.h"
#include "caravan/tensor/functions.h"

namespace caravan::nn {

namespace {

LinearOptions gates_of(const std::string& name, const RecurrentOptions& o, int64_t gates, Source where) {
  if (o.hidden < 1 || o.context < 1)
    throw ConfigError("recurrent layer `" + name + "`" + where_text(where) +
                          " needs .hidden and .context, the length of its sequences.",
                      where);
  return {.output = {gates, o.hidden}, .init = o.init, .dtype = o.dtype};
}
// Sequences of just this length.
Tensor whole(Operand x, int64_t context) { return einsum("..., t | ... => ..., t | ...", x, {{"t", context}}); }
Call called(const char* kind, const Linear& ih, const Operand& x, const RecurrentOptions& o) {
  const std::string name = ih.name.substr(0, ih.name.rfind('.'));  // NAME of NAME.ih
  return Call::layer(
      std::string(kind) + " " + name, {{"x", x}}, [context = o.context](const CallRecord::Shapes& shapes) {
        return is_sequence(shapes, context, "takes sequences of just " + std::to_string(context) + " steps (.context)");
      });
}
Tensor step_of(const Tensor& sequence, int64_t t) {
  return einsum(spec("..., " + std::to_string(t) + " | g, h => ... | g, h"), sequence);
}
Tensor gate(const Tensor& gates, int64_t g) {
  return einsum(spec("... | " + std::to_string(g) + ", h => ... | h"), gates);
}
Tensor as_sequence(const std::vector<Tensor>& steps) {
  return einsum("t, ... | h => ..., t | h", stack(steps, RowKind::batch));
}

}  // namespace

Lstm::Lstm(const std::string& name, const RecurrentOptions& o, Source where)
    : options(o),
      ih(name + ".ih", gates_of(name, o, 4, where), where),
      hh(name + ".hh", gates_of(name, o, 4, where), where) {}
Tensor Lstm::operator()(Operand x, const Phase& phase) const {
  const Call call = called("lstm", ih, x, options);
  Tensor from_input = ih(Operand(whole(x, options.context), x.where), phase),
         h = zeros_like(gate(step_of(from_input, 0), 0)), c = h;
  std::vector<Tensor> steps;
  for (int64_t t = 0; t < options.context; ++t) {
    Tensor gates = step_of(from_input, t) + hh(h, phase);
    c = sigmoid(gate(gates, 1)) * c + sigmoid(gate(gates, 0)) * tanh(gate(gates, 2));
    h = sigmoid(gate(gates, 3)) * tanh(c);
    steps.push_back(h);
  }
  return as_sequence(steps).named("lstm " + ih.name);
}

Gru::Gru(const std::string& name, const RecurrentOptions& o, Source where)
    : options(o),
      ih(name + ".ih", gates_of(name, o, 3, where), where),
      hh(name + ".hh", gates_of(name, o, 3, where), where) {}
Tensor Gru::operator()(Operand x, const Phase& phase) const {
  const Call call = called("gru", ih, x, options);
  Tensor from_input = ih(Operand(whole(x, options.context), x.where), phase),
         h = zeros_like(gate(step_of(from_input, 0), 0));
  std::vector<Tensor> steps;
  for (int64_t t = 0; t < options.context; ++t) {
    Tensor a = step_of(from_input, t), b = hh(h, phase);
    Tensor reset = sigmoid(gate(a, 0) + gate(b, 0)), keep = sigmoid(gate(a, 1) + gate(b, 1));
    h = (1 - keep) * tanh(gate(a, 2) + reset * gate(b, 2)) + keep * h;
    steps.push_back(h);
  }
  return as_sequence(steps).named("gru " + ih.name);
}

}  // namespace caravan::nn
