// Every layer and every loss of nn/, in double, by its input and all its parameters.
#include "caravan/check/draw.h"
#include "caravan/check/gradcheck.h"
#include "caravan/nn/nn.h"
#include "caravan/tensor/functions.h"

namespace caravan {

namespace {

using namespace nn;

Tensor ids(const std::string& shape, const std::vector<double>& values) {
  return tensor(Array(parse_shape(shape), values, DType::i32), "ids");
}
Tensor image(int64_t size, int64_t channels) {
  return leaf("x", "1|" + std::to_string(size) + "," + std::to_string(size) + "," + std::to_string(channels));
}
Tensor sequence() { return leaf("x", "2,3|4"); }

constexpr DType kDouble = DType::f64;
Phase train() { return training({.step = 3}); }
Tensor distribution() {
  return tensor(Array(parse_shape("3|4"), {0, 1, 0, 0, 0.5, 0.25, 0.25, 0, 0.1, 0.2, 0.3, 0.4}));
}
Tensor signs() { return tensor(Array(parse_shape("2|3"), {1, -1, 1, -1, -1, 1})); }

struct BlockCase {
  const char* name;
  std::function<Tensor()> build;
};

const BlockCase kBlocks[] = {
    {"linear", [] { return Linear("l", {.output = {3}, .dtype = kDouble})(leaf("x", "2|4")); }},
    {"linear over two axes", [] { return Linear("l", {.output = {3}, .dtype = kDouble})(leaf("x", "2|2,2")); }},
    {"mlp",
     [] {
       return Mlp("m", {.widths = {5, 2}, .activation = Tanh(), .dtype = kDouble})(leaf("x", "3|4"));
     }},
    {"swiglu", [] { return Swiglu("s", {.hidden = 5, .output = 4, .dtype = kDouble})(leaf("x", "2|4")); }},
    {"leaky relu", [] { return LeakyRelu{0.1}(leaf("x", "8")); }},
    {"elu", [] { return Elu{1.5}(leaf("x", "8")); }},
    {"dropout in training", [] { return Dropout("d", 0.4)(leaf("x", "4|5"), train()); }},
    {"residual",
     [] {
       return Residual(Sequential({Linear("l", {.output = {4}, .dtype = kDouble}), Gelu()}))(leaf("x", "2|4"));
     }},
    {"softmax", [] { return softmax(leaf("x", "2|5")); }},
    {"softmax over an input axis", [] { return softmax("... | t -> h => ... | 0 -> h", leaf("x", "2|3->2")); }},
    {"log-softmax", [] { return log_softmax(leaf("x", "2|5")); }},
    {"conv2d",
     [] { return Conv2d("c", {.channels = 3, .kernel = 3, .padding = same, .dtype = kDouble})(image(4, 2)); }},
    {"conv2d, pairs",
     [] {
       return Conv2d("c", {.channels = 2,
                           .kernel = {3, 2},
                           .stride = {2, 1},
                           .padding = {1, 2},
                           .dilation = {1, 2},
                           .dtype = kDouble})(image(5, 2));
     }},
    {"conv2d, groups",
     [] { return Conv2d("c", {.channels = 4, .kernel = 2, .stride = 2, .groups = 2, .dtype = kDouble})(image(4, 4)); }},
    {"conv1d",
     [] { return Conv1d("c", {.channels = 3, .kernel = 3, .stride = 2, .dtype = kDouble})(leaf("x", "2|7,2")); }},
    {"causal conv1d",
     [] {
       return CausalConv1d("c", {.channels = 2, .kernel = 2, .dilation = 2, .dtype = kDouble})(leaf("x", "2|5,3"));
     }},
    {"transposed conv2d",
     [] {
       return TransposedConv2d("c",
                               {.channels = 2, .kernel = 3, .stride = 2, .padding = 1, .dtype = kDouble})(image(3, 2));
     }},
    {"separable conv2d",
     [] { return SeparableConv2d("c", {.channels = 3, .kernel = 3, .padding = 1, .dtype = kDouble})(image(4, 2)); }},
    {"max pool", [] { return MaxPool2d{{.kernel = 3, .stride = 2, .padding = 1}}(leaf_without_ties("x", "1|5,5,2")); }},
    {"average pool", [] { return AvgPool2d{{.kernel = 2, .padding = 1}}(image(4, 2)); }},
    {"average pool without padding",
     [] { return AvgPool2d{{.kernel = 2, .padding = 1, .exclude_padding = true}}(image(4, 2)); }},
    {"global pools",
     [] { return GlobalAvgPool2d()(image(3, 2)) * GlobalMaxPool2d()(leaf_without_ties("y", "1|3,3,2")); }},
    {"flatten", [] { return Flatten()(image(2, 3)); }},
    {"wavenet fusion", [] { return FlattenConsecutive{2}(leaf("x", "2,4|3")); }},
    {"layer norm", [] { return LayerNorm("n", {.dtype = kDouble})(leaf("x", "3|5")); }},
    {"rms norm", [] { return RmsNorm("n", {.dtype = kDouble})(leaf("x", "3|5")); }},
    {"group norm", [] { return GroupNorm("n", 2, {.dtype = kDouble})(leaf("x", "2|3,4")); }},
    {"batch norm in training", [] { return BatchNorm("n", {.dtype = kDouble})(leaf("x", "4|3"), train()); }},
    {"batch norm of images in training",
     [] { return BatchNorm2d("n", {.dtype = kDouble})(leaf("x", "2|2,2,3"), train()); }},
    {"batch norm in evaluation", [] { return BatchNorm("n", {.dtype = kDouble})(leaf("x", "4|3")); }},
    {"embedding",
     [] {
       return Embedding("e", {.num = 5, .dim = 3, .dtype = kDouble})(ids("4|", {1, 4, 1, 0}));
     }},
    {"learned positions", [] { return LearnedPositions("p", {.num = 5, .dim = 4, .dtype = kDouble})(sequence()); }},
    {"sinusoidal positions", [] { return SinusoidalPositions{}(sequence()); }},
    {"rotary positions", [] { return rotary(leaf("x", "2,3|2,4")); }},
    {"rotary positions in halves", [] { return rotary(leaf("x", "2,3|2,4"), {.halves = true, .first = 2}); }},
    {"self-attention",
     [] { return SelfAttention("a", {.dim = 4, .heads = 2, .bias = true, .dtype = kDouble})(sequence()); }},
    {"causal attention",
     [] { return SelfAttention("a", {.dim = 4, .heads = 2, .causal = true, .dtype = kDouble})(sequence()); }},
    {"grouped-query attention with rotary positions",
     [] {
       return SelfAttention(
           "a", {.dim = 8, .heads = 4, .kv_heads = 2, .causal = true, .rotary = RotaryOptions{}, .dtype = kDouble})(
           leaf("x", "1,3|8"));
     }},
    {"attention with a mask and dropout",
     [] {
       Tensor mask = tensor(Array(parse_shape("3|3->"), {1, 0, 1, 1, 1, 0, 0, 1, 1}, DType::boolean));
       return SelfAttention("a", {.dim = 4, .heads = 2, .dropout = 0.3, .dtype = kDouble})(sequence(), mask, train());
     }},
    {"cross-attention",
     [] { return CrossAttention("a", {.dim = 4, .heads = 2, .dtype = kDouble})(sequence(), leaf("memory", "2,5|3")); }},
    {"encoder block, pre-norm",
     [] {
       return EncoderBlock("b", {.dim = 4, .heads = 2, .hidden = 5, .dropout = 0.2, .dtype = kDouble})(sequence(),
                                                                                                       train());
     }},
    {"encoder block, post-norm",
     [] {
       return EncoderBlock("b", {.dim = 4, .heads = 2, .hidden = 5, .pre_norm = false, .dtype = kDouble})(sequence());
     }},
    {"decoder block, pre-norm",
     [] {
       return DecoderBlock("b", {.dim = 4, .heads = 2, .hidden = 5, .dtype = kDouble})(sequence(),
                                                                                       leaf("memory", "2,2|4"));
     }},
    {"decoder block, post-norm",
     [] {
       return DecoderBlock("b", {.dim = 4, .heads = 2, .hidden = 5, .pre_norm = false, .dtype = kDouble})(
           sequence(), leaf("memory", "2,2|4"));
     }},
    {"gpt",
     [] {
       return Gpt(
           {.vocab = 5, .ctx = 3, .dim = 4, .heads = 2, .layers = 2, .init = normal_init(0, 0.5), .dtype = kDouble})(
           ids("2,3|", {0, 4, 2, 3, 3, 1}));
     }},
    {"gpt, tied",
     [] {
       return Gpt({.vocab = 5,
                   .ctx = 3,
                   .dim = 4,
                   .heads = 2,
                   .layers = 1,
                   .tied = true,
                   .init = normal_init(0, 0.5),
                   .dtype = kDouble})(ids("2,3|", {0, 4, 2, 3, 3, 1}));
     }},
    {"lstm", [] { return Lstm("r", {.hidden = 3, .context = 3, .dtype = kDouble})(sequence()); }},
    {"gru", [] { return Gru("r", {.hidden = 3, .context = 3, .dtype = kDouble})(sequence()); }},
};

const BlockCase kLosses[] = {
    {"cross-entropy, ids",
     [] {
       return cross_entropy(leaf("x", "3|4"), ids("3|", {1, 0, 3}));
     }},
    {"cross-entropy, all options",
     [] {
       return cross_entropy(leaf("x", "3|4"), ids("3|", {1, -100, 3}),
                            {.class_weights = tensor({0.5, 1, 2, 3}), .label_smoothing = 0.1, .ignore = -100});
     }},
    {"cross-entropy, distributions",
     [] { return cross_entropy(leaf("x", "3|4"), distribution(), {.label_smoothing = 0.1}); }},
    {"nll",
     [] {
       return nll(log_softmax(leaf("x", "3|4")), ids("3|", {1, 0, 3}), {.reduction = Reduction::sum});
     }},
    {"binary cross-entropy", [] { return binary_cross_entropy(leaf("x", "2|3"), leaf("y", "2|3")); }},
    {"mse, weighted",
     [] {
       return mse(leaf("x", "2|3"), leaf("y", "2|3"), {.weights = tensor({0.5, 1, 2})});
     }},
    {"mae", [] { return mae(leaf("x", "2|3"), leaf("y", "2|3")); }},
    {"huber", [] { return huber(leaf("x", "2|3"), leaf("y", "2|3"), 0.7); }},
    {"hinge", [] { return hinge(3 * leaf("x", "2|3"), signs(), {.reduction = Reduction::batch_mean}); }},
};

}  // namespace

std::vector<GradientCase> block_gradient_cases() {
  std::vector<GradientCase> out;
  for (const BlockCase& c : kBlocks) out.push_back({"layer", c.name, 1, [build = c.build] { return sin(build()); }});
  for (const BlockCase& c : kLosses) out.push_back({"loss", c.name, 1, c.build});
  return out;
}

}  // namespace caravan
