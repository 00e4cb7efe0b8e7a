// Activations as types, so that they can stand among layers (the functions relu(x), tanh(x), .. are those of the op
// table), and softmax over the axes that a spec names.
#pragma once

#include "caravan/tensor/call.h"
#include "caravan/tensor/functions.h"

namespace caravan::nn {

// x as it is.
struct Identity {
  Tensor operator()(Operand x) const { return x.tensor; }
};
// max(x, 0).
struct Relu {
  Tensor operator()(Operand x) const { return relu(x); }
};
// x * P(X <= x) for a standard normal X, computed exactly.
struct Gelu {
  Tensor operator()(Operand x) const { return gelu(x); }
};
// Gelu in the approximation that GPT-2 uses.
struct GeluTanh {
  Tensor operator()(Operand x) const { return gelu_tanh(x); }
};
// x * sigmoid(x), also called swish.
struct Silu {
  Tensor operator()(Operand x) const { return silu(x); }
};
// log(1 + exp(x)).
struct Softplus {
  Tensor operator()(Operand x) const { return softplus(x); }
};
// The hyperbolic tangent.
struct Tanh {
  Tensor operator()(Operand x) const { return tanh(x); }
};
// 1 / (1 + exp(-x)).
struct Sigmoid {
  Tensor operator()(Operand x) const { return sigmoid(x); }
};
// x where it is positive, slope * x elsewhere.
struct LeakyRelu {
  double slope = 0.01;  // the slope of the negative half
  Tensor operator()(Operand x) const {
    const Call call = Call::layer("leaky_relu", {{"x", x}});
    return where(x > 0, x, slope * x);
  }
};
// x where it is positive, alpha * (exp(x) - 1) elsewhere.
struct Elu {
  double alpha = 1;  // the limit of the negative half is -alpha
  Tensor operator()(Operand x) const {
    const Call call = Call::layer("elu", {{"x", x}});
    return where(x > 0, x, alpha * expm1(min(x, 0)));
  }
};

// exp(x) divided by its sum, over the axes that the spec keeps as 0: softmax("... | t -> h => ... | 0 -> h", scores)
// normalises over t. Without a spec over the last output axis. Stable for logits of any size.
Tensor softmax(Spec<1> spec, Operand x);
Tensor log_softmax(Spec<1> spec, Operand x);  // the logarithm of softmax, computed without underflow
Tensor softmax(Operand x);
Tensor log_softmax(Operand x);

}  // namespace caravan::nn
