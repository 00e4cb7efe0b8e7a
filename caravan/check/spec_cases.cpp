// One or more cases per family of specs, each checked at first and second order.
#include "caravan/check/draw.h"
#include "caravan/check/gradcheck.h"
#include "caravan/tensor/functions.h"

namespace caravan {

namespace {

using Built = GradientCase::Built;

Tensor ids(const std::vector<double>& values) { return tensor(Array::vector(values, DType::i32), "ids"); }

Tensor kept_mean(const Tensor& x) {
  Dim n;
  Tensor total = einsum("... | i => ... | 0", x, {{"i", n}});
  return total / n;
}
Tensor softmax(const Tensor& x) {
  Tensor e = exp(x - einmax("... | i => ... | 0", x));
  return e / einsum("... | i => ... | 0", e);
}
Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift) {
  Tensor centred = x - kept_mean(x);
  return centred * rsqrt(kept_mean(square(centred)) + 1e-5) * scale + shift;
}
Tensor cross_entropy(const Tensor& logits, const Tensor& one_hot) {
  Tensor shifted = logits - einmax("... | i => ... | 0", logits);
  return mean(log(einsum("... | i => ... | 0", exp(shifted))) -
              einsum("... | i; ... | i => ... | 0", one_hot, shifted));
}
Tensor with_a_zero(const std::string& name, const std::string& shape) {
  Array values = drawn(name, shape);
  values.set(1, 0);
  return param(name, values);
}

struct SpecCase {
  const char* family;
  const char* name;
  std::function<Built()> build;
  bool second = true;
};

const SpecCase kCases[] = {
    {"contraction", "matrix product", [] { return einsum("ij;jk=>ik", leaf("a", "3,4"), leaf("b", "4,2")); }},
    {"contraction", "three operands",
     [] { return einsum("ij;jk;kl=>il", leaf("a", "2,3"), leaf("b", "3,2"), leaf("c", "2,3")); }},
    {"contraction", "inner and outer",
     [] {
       return einsum("i;i=>", leaf("a", "4"), leaf("b", "4")) * einsum("i;j=>i->j", leaf("a2", "2"), leaf("b2", "3"));
     }},
    {"contraction", "an operand used twice",
     [] {
       Tensor a = leaf("a", "3,3");
       return einsum("ij;jk=>ik", a, a);
     }},
    {"contraction", "a whole row summed", [] { return einsum("b|i->o => b|o", leaf("a", "2|3->2")); }},
    {"batch contraction", "row variables",
     [] { return einsum("...|h->o; ...|i->h => ...|i->o", leaf("a", "2|3->2"), leaf("b", "2|2->3")); }},
    {"batch contraction", "attention scores",
     [] { return einsum("... s | h d; ... t | h d => ... s | t -> h", leaf("q", "2,3|2,2"), leaf("k", "2,3|2,2")); }},
    {"broadcast", "bias", [] { return leaf("x", "4|3") + leaf("b", "3"); }},
    {"broadcast", "scalar", [] { return leaf("x", "2|3") * leaf("s", ""); }},
    {"broadcast", "kept axis",
     [] {
       Tensor x = leaf("x", "2|3");
       return x / (einsum("... | i => ... | 0", square(x)) + 1);
     }},
    {"apply", "w(x)", [] { return leaf("w", "3->2")(leaf("x", "4|3")); }},
    {"apply", "two axes", [] { return leaf("w", "2,3->2")(leaf("x", "2|2,3")); }},
    {"apply", "composed maps", [] { return leaf("v", "2->3")(leaf("w", "4->2")); }},
    {"apply", "two layers",
     [] { return leaf("v", "3->1")(tanh(leaf("w", "2->3")(leaf("x", "3|2")) + leaf("b", "3"))); }},
    {"window", "valid", [] { return einsum("o+k; k => o", leaf("x", "7"), leaf("w", "3")); }},
    {"window", "stride 2", [] { return einsum("2*o+k; k => o", leaf("x", "8"), leaf("w", "3")); }},
    {"window", "stride 3 leaves a rest", [] { return einsum("3*o+k; k => o", leaf("x", "9"), leaf("w", "2")); }},
    {"window", "dilation 2", [] { return einsum("o+2*k; k => o", leaf("x", "9"), leaf("w", "3")); }},
    {"window", "offset", [] { return einsum("o+2+k; k => o", leaf("x", "8"), leaf("w", "2")); }},
    {"window", "padding 1", [] { return einsum("o<1+k; k => o", leaf("x", "6"), leaf("w", "3")); }},
    {"window", "padding 2, stride 2, dilation 2",
     [] { return einsum("2*o<2+2*k; k => o", leaf("x", "7"), leaf("w", "3")); }},
    {"window", "same, stride 2", [] { return einsum("2*o=+k; k => o", leaf("x", "6"), leaf("w", "3")); }},
    {"window", "convolution",
     [] {
       return einsum("... | s*oh=+kh, s*ow=+kw, ic; kh, kw, ic -> oc => ... | oh, ow, oc", leaf("x", "1|4,4,2"),
                     leaf("w", "3,3,2->2"), {{"s", 2}}) +
              leaf("b", "2");
     }},
    {"transposed window", "stride 2", [] { return einsum("o; k => 2*o+k", leaf("x", "4"), leaf("w", "3")); }},
    {"transposed window", "dilation 2", [] { return einsum("o; k => o+2*k", leaf("x", "4"), leaf("w", "2")); }},
    {"transposed window", "channels",
     [] { return einsum("... | o, ic; k, ic -> oc => ... | 2*o+k, oc", leaf("x", "2|3,2"), leaf("w", "2,2->2")); }},
    {"max and min", "pool",
     [] {
       return einmax("2*o+k => o", leaf_without_ties("x", "8"), {{"k", 2}});
     }},
    {"max and min", "overlapping padded max",
     [] {
       return einmax("2*o<1+k => o", leaf_without_ties("x", "9"), {{"k", 3}});
     }},
    {"max and min", "overlapping padded max, two axes",
     [] {
       return einmax("... | 2*oh<1+kh, 2*ow<1+kw => ... | oh, ow", leaf_without_ties("x", "1|5,5"),
                     {{"kh", 3}, {"kw", 3}});
     }},
    {"max and min", "min over an axis", [] { return einmin("b|i => b|", leaf_without_ties("x", "3|4")); }},
    {"max and min", "largest and smallest",
     [] {
       Tensor x = leaf_without_ties("x", "2|4");
       return largest(x) * smallest(x);
     }},
    {"max and min", "max of products", [] { return einmax("ij;jk=>ik", leaf("a", "3,4"), leaf("b", "4,2")); }},
    {"tropical", "max of sums", [] { return tropical("ij;jk=>ik", leaf("a", "3,4"), leaf("b", "4,2")); }},
    {"tropical", "dilation of an image", [] { return tropical("o<1+k; k => o", leaf("x", "7"), leaf("w", "3")); }},
    {"tropical", "sum of sums", [] { return outer_sum("i;j=>i", leaf("a", "3"), leaf("b", "4")); }},
    {"product", "over an axis", [] { return einprod("b|i => b|", leaf("x", "3|4")); }, false},
    {"product", "with a zero", [] { return einprod("b|i => b|", with_a_zero("x", "2|4")); }, false},
    {"product", "of all", [] { return product(with_a_zero("x", "5")); }, false},
    {"index tensors", "gather, repeated ids",
     [] {
       return gather(leaf("table", "4->3"), ids({2, 0, 2}));
     }},
    {"index tensors", "scatter_add, repeated ids",
     [] {
       return scatter_add(leaf("x", "4,2"), ids({2, 0, 2, 1}), 5);
     }},
    {"index tensors", "gather of rows",
     [] {
       return gather(leaf("table", "4|3"), ids({2, 0, 2}), RowKind::batch);
     }},
    {"index tensors", "embedding, then a map",
     [] {
       return leaf("w", "3->2")(gather(leaf("table", "4->3"), tensor(Array(parse_shape("2|"), {3, 3}, DType::i32))));
     }},
    {"parts", "concat", [] { return concat("a; b => a^b", leaf("a", "3"), leaf("b", "2")); }},
    {"parts", "concat of three, two axes",
     [] { return concat("r, a; r, b; r, c => r, a^b^c", leaf("a", "2,2"), leaf("b", "2,1"), leaf("c", "2,3")); }},
    {"parts", "slice", [] { return einsum("3^rest => rest", leaf("x", "7")); }},
    {"parts", "shift and pad", [] { return einsum("i^1 => 2^i", leaf("x", "5")); }},
    {"parts", "stack on an output axis",
     [] {
       return stack({leaf("a", "3"), leaf("b", "3")});
     }},
    {"parts", "stack on a batch axis",
     [] {
       return stack({leaf("a", "3"), leaf("b", "3")}, RowKind::batch);
     }},
    {"parts", "stack on an input axis",
     [] {
       return stack({leaf("a", "3"), leaf("b", "3")}, RowKind::input);
     }},
    {"merge and split", "merge", [] { return einsum("x, y => x&y", leaf("a", "3,4")); }},
    {"merge and split", "split",
     [] {
       return einsum("x&y => y, x", leaf("a", "12"), {{"y", 4}});
     }},
    {"merge and split", "batches",
     [] {
       Index at("at");
       return Built(leaf("x", "6|2").batches(3)[at], {{at, 1}});
     }},
    {"diagonals", "read", [] { return einsum("ii=>i", leaf("a", "4,4")); }},
    {"diagonals", "trace", [] { return einsum("ii=>", leaf("a", "4,4")); }},
    {"diagonals", "write", [] { return einsum("i=>ii", leaf("a", "4")); }},
    {"fixed indices", "read", [] { return einsum("i1=>i", leaf("a", "3,4")); }},
    {"fixed indices", "write", [] { return einsum("ij=>i1j", leaf("a", "3,2")); }},
    {"fixed indices", "static index",
     [] {
       Index at("at");
       return Built(leaf("x", "4|3")[at] * at, {{at, 2}});
     }},
    {"reversed", "read", [] { return einsum("-i=>i", leaf("a", "5")); }},
    {"reversed", "write", [] { return einsum("ij => j-i", leaf("a", "2,3")); }},
    {"strided", "read", [] { return einsum("2*n+1 => n", leaf("a", "8")); }},
    {"strided", "write", [] { return einsum("n => 2*n+1", leaf("a", "4")); }},
    {"conditions", "cumulative sum",
     [] {
       return einsum("j => i", leaf("x", "6"), {{"i", "j"}, {"j <= i"}});
     }},
    {"conditions", "cumulative max",
     [] {
       return einmax("j => i", leaf_without_ties("x", "6"), {{"i", "j"}, {"j <= i"}});
     }},
    {"conditions", "lower triangle",
     [] { return einsum("ij;jk=>ik", leaf("a", "4,4"), leaf("b", "4,2"), {{"j <= i"}}); }},
    {"composed", "softmax", [] { return softmax(leaf("x", "2|4")); }},
    {"composed", "layer norm", [] { return layer_norm(leaf("x", "2|4"), leaf("scale", "4"), leaf("shift", "4")); }},
    {"composed", "cross entropy",
     [] {
       return cross_entropy(leaf("x", "3|4"), tensor(Array(parse_shape("3|4"), {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1})));
     }},
    {"composed", "mean", [] { return mean(square(leaf("x", "2|3->2"))); }},
    {"composed", "dot", [] { return dot(exp(leaf("a", "2|3")), leaf("b", "2|3")); }},
    {"selections", "where",
     [] {
       Tensor x = leaf("x", "6");
       return where(x > 0, exp(x), square(x) * leaf("y", "6"));
     }},
    {"selections", "clamp", [] { return clamp(square(leaf("x", "6")) * leaf("y", "6"), -0.2, 0.3); }},
    {"selections", "relu", [] { return relu(leaf("w", "3->4")(leaf("x", "2|3"))); }},
};

}  // namespace

std::vector<GradientCase> spec_gradient_cases() {
  std::vector<GradientCase> out;
  for (const SpecCase& c : kCases)
    for (int order = 1; order <= (c.second ? 2 : 1); ++order)
      out.push_back({c.family, c.name, order, [build = c.build] {
                       Built built = build();
                       built.result = sin(built.result);  // or the second derivative of a linear map would be 0 = 0
                       return built;
                     }});
  return out;
}

}  // namespace caravan
