// The training steps that are measured. Examples are random numbers of a fixed seed, which lie in memory before the
// first step; each step takes the next batch of them.
#include "apps/bench/workload.h"
#include "caravan/data/synthetic.h"
#include "caravan/nn/nn.h"
#include "caravan/parity/description.h"

namespace caravan::bench {

namespace {

constexpr int64_t kBatches = 64;

// Numbers and ids of `batch` examples at a time, each with the given axes.
Array numbers(int64_t batch, Row axes) {
  return random_normal({.batch = {kBatches, batch}, .output = std::move(axes)}, 1);
}
Array ids(Row batch, Row axes, int64_t range, uint64_t seed) {
  batch.insert(batch.begin(), Axis(kBatches));
  return random_ids({.batch = std::move(batch), .output = std::move(axes)}, range, seed);
}
Array labels(Row batch, int64_t classes) { return ids(std::move(batch), {}, classes, 2); }

// Operations of linear layers of these widths on so many rows: the product forward, that for the gradient of the weight
// and that for the gradient of the input. The data have no gradient.
double dense(int64_t rows, const std::vector<int64_t>& widths, bool on_data = true) {
  double out = 0;
  for (size_t i = 0; i + 1 < widths.size(); ++i)
    out += (i == 0 && on_data ? 4.0 : 6.0) * double(rows) * double(widths[i] * widths[i + 1]);
  return out;
}

struct Training {
  nn::Layer model;
  Array x, y;
  std::function<Tensor(const Tensor& output, const Tensor& y)> loss;
  std::string optimizer;
  double flops;
  DType precision = DType::f32;
};

Workload workload(const Training& t) {
  const Index batch("batch", kBatches);
  nn::PhaseOptions options;
  if (t.precision != DType::f32) options.precision = t.precision;
  const nn::Phase phase = nn::training(options);
  const Tensor output = t.model(t.x[batch].named("x"), phase);
  const Tensor loss = t.loss(output, t.y[batch].named("y")).named("loss");
  return {.program = train_step(loss, parity::parse_optimizer(t.optimizer)) & phase.updates(),
          .result = loss,
          .flops = t.flops,
          .batch = batch,
          .data = {{"x", t.x}, {"y", t.y}},
          .optimizer = t.optimizer,
          .precision = t.precision};
}

Tensor cross_entropy(const Tensor& logits, const Tensor& y) { return nn::cross_entropy(logits, y); }

Workload camelax_mnist(const Sizes& of) {
  const int64_t pixels = of(784, 20), hidden = of(100, 12);
  return workload({.model = nn::Mlp("mlp", {.widths = {hidden, hidden, hidden, 10}, .activation = nn::Tanh()}),
                   .x = numbers(1, {pixels}),
                   .y = labels({1}, 10),
                   .loss = cross_entropy,
                   .optimizer = R"({"name": "sgd", "lr": 0.01})",
                   .flops = dense(1, {pixels, hidden, hidden, hidden, 10})});
}

Workload camelax_mul(const Sizes& of) {
  const int64_t hidden = of(100, 12);
  const data::LabelledPoints pairs = data::products({.points = kBatches, .seed = 1});
  return workload({.model = nn::Mlp("mlp", {.widths = {hidden, hidden, 1}}),
                   .x = pairs.points.batches(1),
                   .y = pairs.labels.batches(1),
                   .loss = [](const Tensor& output, const Tensor& y) { return nn::mse(output, y); },
                   .optimizer = R"({"name": "sgd", "lr": 0.001})",
                   .flops = dense(1, {2, hidden, hidden, 1})});
}

Workload moons(const Sizes&) {
  constexpr int64_t kBatch = 10;
  const data::LabelledPoints moons = data::half_moons({.points = kBatches * kBatch, .seed = 1});
  return workload({.model = nn::Mlp("mlp", {.widths = {16, 16, 1}}),
                   .x = moons.points.batches(kBatch),
                   .y = moons.labels.batches(kBatch),
                   .loss = [](const Tensor& output, const Tensor& y) { return nn::hinge(output, y); },
                   .optimizer = R"({"name": "sgd", "lr": 0.1, "weight_decay": 0.0001})",
                   .flops = dense(kBatch, {2, 16, 16, 1})});
}

constexpr int64_t kLetters = 28;
constexpr const char* kNamesOptimizer = R"({"name": "sgd", "lr": 0.1})";

// Three letters, each as ten numbers; a hidden layer; logits of the next letter.
Workload names_mlp(int64_t batch, bool norm, const Sizes& of) {
  const int64_t hidden = of(200, 16);
  std::vector<nn::Layer> layers = {nn::Embedding("letters", {.num = kLetters, .dim = 10}),
                                   nn::Linear("hidden", {.output = {hidden}, .bias = !norm})};
  if (norm) layers.push_back(nn::BatchNorm("norm"));
  layers.insert(layers.end(), {nn::Tanh(), nn::Linear("next", {.output = {kLetters}})});
  return workload({.model = nn::Sequential(layers),
                   .x = ids({batch}, {3}, kLetters, 1),
                   .y = labels({batch}, kLetters),
                   .loss = cross_entropy,
                   .optimizer = kNamesOptimizer,
                   .flops = dense(batch, {30, hidden, kLetters}, false)});
}

// Eight letters, put together two by two in three levels.
Workload names_wavenet(const Sizes& of) {
  const int64_t batch = of(32, 6), embed = of(24, 6), hidden = of(128, 10);
  std::vector<nn::Layer> layers = {nn::Embedding("letters", {.num = kLetters, .dim = embed})};
  for (const std::string level : {"level1", "level2", "level3"})
    layers.insert(layers.end(),
                  {nn::FlattenConsecutive{.n = 2, .last = level == "level3"},
                   nn::Linear(level, {.output = {hidden}, .bias = false}), nn::BatchNorm(level + ".norm"), nn::Tanh()});
  layers.push_back(nn::Linear("next", {.output = {kLetters}}));
  return workload({.model = nn::Sequential(layers),
                   .x = ids({batch, 8}, {}, kLetters, 1),
                   .y = labels({batch}, kLetters),
                   .loss = cross_entropy,
                   .optimizer = kNamesOptimizer,
                   .flops = dense(batch * 4, {2 * embed, hidden}, false) +
                            dense(batch * 2, {2 * hidden, hidden}, false) +
                            dense(batch, {2 * hidden, hidden, kLetters}, false)});
}

Workload mnist_mlp(const Sizes& of) {
  const int64_t batch = of(128, 8), pixels = of(784, 24), hidden = of(512, 16);
  return workload({.model = nn::Mlp("mlp", {.widths = {hidden, hidden, 10}}),
                   .x = numbers(batch, {pixels}),
                   .y = labels({batch}, 10),
                   .loss = cross_entropy,
                   .optimizer = R"({"name": "sgd", "lr": 0.01, "momentum": 0.9})",
                   .flops = dense(batch, {pixels, hidden, hidden, 10})});
}

Workload lenet(const Sizes& of) {
  const int64_t batch = of(64, 3), side = of(28, 14), first = of(32, 4), second = of(64, 6), hidden = of(128, 8);
  const int64_t middle = (side - 2) / 2, last = (middle - 2) / 2;  // sides after the pools
  const nn::Sequential model({nn::Conv2d("conv1", {.channels = first}), nn::Relu(), nn::MaxPool2d(),   //
                              nn::Conv2d("conv2", {.channels = second}), nn::Relu(), nn::MaxPool2d(),  //
                              nn::Rearrange{"... | h, w, c => ... | h&w&c"}, nn::Linear("dense1", {.output = {hidden}}),
                              nn::Relu(), nn::Linear("dense2", {.output = {10}})});
  return workload({.model = model,
                   .x = numbers(batch, {side, side, 1}),
                   .y = labels({batch}, 10),
                   .loss = cross_entropy,
                   .optimizer = R"({"name": "adam", "lr": 0.001})",
                   .flops = dense(batch * (side - 2) * (side - 2), {9, first}) +
                            dense(batch * (middle - 2) * (middle - 2), {9 * first, second}, false) +
                            dense(batch, {last * last * second, hidden, 10}, false)});
}

Workload gpt(int64_t batch, const nn::GptOptions& o, const std::string& optimizer, DType precision = DType::f32) {
  const int64_t rows = batch * o.ctx;
  const double linear = dense(rows, {o.dim, 3 * o.dim}, false) + dense(rows, {o.dim, o.dim}, false) +  // qkv, proj
                        dense(rows, {o.dim, 4 * o.dim, o.dim}, false),                                 // up, down
      attention = 2 * 6.0 * double(rows * o.ctx * o.dim);  // scores, and their products with the values
  return workload({.model = nn::Gpt(o),
                   .x = ids({batch, o.ctx}, {}, o.vocab, 1),
                   .y = labels({batch, o.ctx}, o.vocab),
                   .loss = cross_entropy,
                   .optimizer = optimizer,
                   .flops = double(o.layers) * (linear + attention) + dense(rows, {o.dim, o.vocab}, false),
                   .precision = precision});
}
Workload names_transformer(const Sizes& of) {
  return gpt(of(32, 3), {.vocab = kLetters, .ctx = of(16, 6), .dim = of(64, 8), .heads = of(4, 2), .layers = of(4, 2)},
             R"({"name": "adam", "lr": 0.001})");
}
constexpr const char* kGptOptimizer = R"({"name": "adamw", "lr": 0.001, "weight_decay": 0.1})";
Workload gpt_char(int64_t batch, DType precision, const Sizes& of) {
  return gpt(batch, {.vocab = 65, .ctx = of(256, 10), .dim = of(384, 12), .heads = of(6, 3), .layers = of(6, 2)},
             kGptOptimizer, of.small ? DType::f32 : precision);
}
// The vocabulary of GPT-2, 50,257, rounded up to a multiple of 64, as it is usually trained.
Workload gpt2(const Sizes& of) {
  return gpt(of(32, 2),
             {.vocab = of(50'304, 96),
              .ctx = of(1024, 10),
              .dim = of(768, 12),
              .heads = of(12, 3),
              .layers = of(12, 2),
              .tied = true,
              .attention_bias = true},
             kGptOptimizer, of.small ? DType::f32 : DType::bf16);
}

}  // namespace

std::vector<Entry> training_steps() {
  return {
      {"camelax-mnist", "784-100-100-100-10 tanh, cross-entropy, batch 1, SGD", camelax_mnist},
      {"camelax-mul", "2-100-100-1 ReLU, mean square, batch 1, SGD", camelax_mul},
      {"moons", "2-16-16-1 ReLU, hinge loss, batch 10, SGD with weight decay", moons},
      {"names-mlp-b32", "3 letters of 28 as 10 numbers, hidden 200 tanh, batch 32, SGD",
       [](const Sizes& of) { return names_mlp(of(32, 5), false, of); }},
      {"names-mlp-b1024", "the same, batch 1024", [](const Sizes& of) { return names_mlp(of(1024, 9), false, of); }},
      {"names-mlp-bn", "the same with batch norm, batch 32",
       [](const Sizes& of) { return names_mlp(of(32, 5), true, of); }},
      {"names-wavenet", "8 letters as 24 numbers, 3 levels of 128 with batch norm, batch 32, SGD", names_wavenet},
      {"names-transformer", "GPT of 4 layers, 64 wide, 4 heads, 16 letters, batch 32, Adam", names_transformer},
      {"mnist-mlp", "784-512-512-10 ReLU, batch 128, SGD with momentum", mnist_mlp},
      {"lenet", "convolutions 32 and 64 of 3 x 3, pools, dense 1600-128-10, batch 64, Adam", lenet},
      {"gpt-char-b4", "GPT of 6 layers, 384 wide, 6 heads, 256 of 65 characters, batch 4, AdamW",
       [](const Sizes& of) { return gpt_char(of(4, 2), DType::f32, of); }},
      {"gpt-char-b64", "the same, batch 64, products of bf16; for a GPU",
       [](const Sizes& of) { return gpt_char(of(64, 3), DType::bf16, of); }, true},
      {"gpt2-124m", "GPT-2 of 12 layers, 768 wide, 12 heads, 1024 of 50304 ids, batch 32, AdamW, bf16; for a GPU", gpt2,
       true}};
}

}  // namespace caravan::bench
