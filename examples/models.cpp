// Every block of caravan/nn in a line, with the shape it gives; then a small network of one's own, trained.
#include <caravan/caravan.h>
using namespace caravan;
using namespace caravan::nn;

// A model is a struct with a call operator. Its parameters are those it reaches.
struct Net {
  Conv2d conv{"conv", {.channels = 8, .kernel = 3, .padding = same}};
  BatchNorm2d norm{"norm"};
  Linear head{"head", {.output = {2}}};
  Tensor operator()(const Tensor& x, const Phase& phase) const { return head(MaxPool2d{}(relu(norm(conv(x, phase), phase))), phase); }
};

int main() {
  Index step("step");
  Phase phase = training({.step = step});
  auto data = [](const char* shape) { return normal(shape, {.like = tensor(Array(parse_shape(shape))), .step = 0}); };
  Tensor x = data("2|10"), image = data("2|8,8,4"), wave = data("2|9,4"), text = data("2,5|16"), memory = data("2,7|16"), query = data("2,5|4,8");
  Tensor ids = tensor(Array(parse_shape("2,5|"), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, DType::i32)), classes = tensor(Array(parse_shape("2|"), {3, 7}, DType::i32));

  Context ctx({.seed = 1, .device = "cpu"});
  auto show = [&](const char* name, const Tensor& y) { std::cout << name << ": " << ctx.shape(y) << '\n'; };
  show("linear", Linear("linear", {.output = {6}})(x));
  show("mlp", Mlp("mlp", {.widths = {32, 6}, .activation = Tanh()})(x));
  show("swiglu", Swiglu("swiglu", {.hidden = 24, .output = 10})(x));
  show("sequential", Sequential({Linear("a", {.output = {20}}), Relu(), Dropout("drop", 0.1), Linear("b", {.output = {6}})})(x, phase));
  show("residual", Residual(Sequential({LayerNorm("n"), Linear("c", {.output = {10}}), Gelu()}))(x));
  show("softmax", softmax(x));
  show("log-softmax", log_softmax("... | h, w, c => ... | 0, 0, c", image));
  show("conv2d", Conv2d("conv2d", {.channels = 6, .kernel = {3, 5}, .stride = 2, .padding = {1, 2}, .groups = 2})(image));
  show("conv1d", Conv1d("conv1d", {.channels = 6, .kernel = 3, .padding = same})(wave));
  show("causal conv1d", CausalConv1d("causal", {.channels = 6, .kernel = 2, .dilation = 4})(wave));
  show("transposed conv2d", TransposedConv2d("up", {.channels = 6, .kernel = 4, .stride = 2, .padding = 1})(image));
  show("separable conv2d", SeparableConv2d("separable", {.channels = 6, .kernel = 3, .padding = same})(image));
  show("max pool", MaxPool2d{{.kernel = 3, .stride = 2, .padding = 1}}(image));
  show("average pool", AvgPool2d{{.kernel = 2}}(image));
  show("global average pool", GlobalAvgPool2d()(image));
  show("flatten", Flatten()(image));
  show("rearrange", Rearrange{"..., t | c => ... | t, c"}(text));
  show("wavenet fusion", FlattenConsecutive{.n = 5, .last = true}(text));
  show("batch norm", BatchNorm("batch_norm")(image, phase));
  show("layer norm", LayerNorm("layer_norm")(text));
  show("rms norm", RmsNorm("rms_norm")(text));
  show("group norm", GroupNorm("group_norm", 2)(image));
  show("embedding", Embedding("embedding", {.num = 10, .dim = 16})(ids));
  show("learned positions", LearnedPositions("positions", {.num = 100, .dim = 16})(text));
  show("sinusoidal positions", SinusoidalPositions{}(text));
  show("rotary positions", rotary(query));
  show("self-attention", SelfAttention("attention", {.dim = 16, .heads = 4, .kv_heads = 2, .causal = true})(text));
  show("cross-attention", CrossAttention("cross", {.dim = 16, .heads = 4})(text, memory));
  show("encoder block", EncoderBlock("encoder", {.dim = 16, .heads = 4})(text));
  show("decoder block", DecoderBlock("decoder", {.dim = 16, .heads = 4, .pre_norm = false})(text, memory));
  show("gpt", Gpt({.vocab = 10, .ctx = 32, .dim = 16, .heads = 4, .layers = 2, .tied = true})(ids));
  show("lstm", Lstm("lstm", {.hidden = 6, .context = 5})(text));
  show("gru", Gru("gru", {.hidden = 6, .context = 5})(text));
  show("cross-entropy", cross_entropy(x, classes, {.label_smoothing = 0.1, .ignore = -100}));

  // Is the right half brighter than the left one?
  Net net;
  Phase learning = training();
  std::cout << '\n' << summary(net, "16|8,8,1");
  for (const Tensor& p : parameters(net)) std::cout << p.name() << ' ';
  Tensor pictures = uniform("pictures", {.batch = {16}, .output = {8, 8, 1}, .step = step});
  Tensor on_the_right = einsum("... | h, w, 0 => ... |", pictures, {{"w >= 4"}}) > einsum("... | h, w, 0 => ... |", pictures, {{"w < 4"}});
  Tensor loss = cross_entropy(net(pictures, learning), cast(on_the_right, DType::i32));
  Tensor right_answers = mean(argmax("... | c => ... |", net(pictures, evaluation())) == on_the_right);
  Routine train = ctx.compile(train_step(loss, adam({.lr = 0.01})) & learning.updates());
  for (int s = 0; s < 400; ++s) train.run({{step, s}});
  Routine test = ctx.compile(observe(right_answers));
  double right = 0;
  for (int s = 1000; s < 1100; ++s) test.run({{step, s}}), right += test.read(right_answers).item();
  std::cout << "\nunseen pictures: " << (right / 100 > 0.8 ? "more" : "less") << " than 80 % right\n";
}
