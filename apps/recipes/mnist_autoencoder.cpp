// Digits through sixteen numbers and back: an encoder, a decoder, and a head that reads the digit from the sixteen.
#include <fmt/format.h>

#include <algorithm>

#include "apps/recipes/digits.h"
#include "apps/recipes/layers.h"
#include "caravan/base/random.h"
#include "caravan/data/loader.h"
#include "caravan/plot/sheet.h"

namespace caravan::app {

namespace {

constexpr int64_t kEmbedding = 16;
constexpr double kReconstructionWeight = 100;  // of the mean square error of a pixel; the head's loss has weight 1

struct Autoencoder {
  nn::Mlp encoder{"encoder", {.widths = {64, 32, kEmbedding}, .activation = nn::Tanh()}};
  nn::Mlp decoder{"decoder", {.widths = {32, 64, 784}, .activation = nn::Tanh()}};
  nn::Linear head{"head", {.output = {10}}};

  Tensor embed(const Tensor& x) const { return tanh(encoder(flattened(x))); }
  Tensor decode(const Tensor& z) const {
    return einsum("... | h&w&c => ... | h, w, c", sigmoid(decoder(z)), {{"h", 28}, {"w", 28}});
  }
  Tensor digit(const Tensor& z) const { return nn::softmax(head(z)); }

  std::vector<Part::Layer> encoder_layers(const Tensor& x) const {
    std::vector<Part::Layer> out = layers_of(encoder, flattened(x));
    out.back() = {"embedding", tanh(out.back().value)};
    return out;
  }
  std::vector<Part::Layer> decoder_layers(const Tensor& z) const {
    std::vector<Part::Layer> out = layers_of(decoder, z);
    out.back() = {"image", decode(z)};
    return out;
  }
};

// For each digit the test image that the head reads most surely; -1 where there is none.
std::vector<int64_t> surest(const Predictions& p) {
  std::vector<int64_t> out(10, -1);
  for (size_t i = 0; i < p.probabilities.size(); ++i) {
    int64_t& best = out[size_t(p.truth(i))];
    auto sure = [&](size_t k) { return p.probabilities[k][size_t(p.truth(i))]; };
    if (best < 0 || sure(i) > sure(size_t(best))) best = int64_t(i);
  }
  return out;
}

// g((1 - a) f(x) + a f(y)) for a = 0, 0.1, .., 1: one row for each pair.
plot::Sheet interpolation(const Autoencoder& network, Context& ctx, const Predictions& p) {
  constexpr int kStages = 11;
  constexpr std::pair<size_t, size_t> kPairs[] = {{3, 8}, {1, 7}, {4, 9}, {0, 6}, {5, 3}, {7, 2}};
  const std::vector<int64_t> example = surest(p);
  std::vector<int64_t> from, to;
  std::vector<double> ratios;
  plot::Sheet out{.title = "From one digit to another through the embedding"};
  for (const auto& [a, b] : kPairs) {
    if (example[a] < 0 || example[b] < 0) continue;
    out.row_titles.push_back(fmt::format("{} to {}", a, b));
    for (int stage = 0; stage < kStages; ++stage)
      from.push_back(example[a]), to.push_back(example[b]), ratios.push_back(stage / 10.0);
  }
  for (int stage = 0; stage < kStages; ++stage) out.column_titles.push_back(fmt::format("{:.1f}", stage / 10.0));
  out.columns = kStages;
  auto embedded = [&](const std::vector<int64_t>& rows) { return network.embed(pixels(tensor(p.inputs.take(rows)))); };
  Shape each;
  each.batch = {{int64_t(ratios.size())}};
  Tensor ratio = tensor(Array(each, ratios), "ratio");
  out.images = ctx.eval(network.decode(einsum("n|z; n| => n|z", embedded(from), 1 - ratio) +
                                       einsum("n|z; n| => n|z", embedded(to), ratio)));
  return out;
}

plot::Sheet reconstructions(const Autoencoder& network, Context& ctx, const Array& images) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < std::min<int64_t>(12, images.shape().batch[0].size); ++i) rows.push_back(i);
  Tensor x = pixels(tensor(images.take(rows)));
  plot::Sheet out{.title = "Test images and what comes back"};
  out.images = ctx.eval(concat("n|...; m|... => n^m|...", x, network.decode(network.embed(x))));
  out.columns = int(rows.size());
  out.row_titles = {"image", "decoded"};
  return out;
}

// Embeddings drawn between those of test images, as if each coordinate were normal.
plot::Sheet imagined(const Autoencoder& network, Context& ctx, const Array& images, uint64_t seed) {
  constexpr int64_t kCount = 60;
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < std::min<int64_t>(500, images.shape().batch[0].size); ++i) rows.push_back(i);
  const Array z = ctx.eval(network.embed(pixels(tensor(images.take(rows)))));
  const data::Normalization observed(z, data::Over::each_feature);
  std::vector<double> values;
  for (int64_t i = 0; i < kCount; ++i)
    for (int64_t c = 0; c < kEmbedding; ++c) {
      const Word4 w = random_words(seed, hash_name("autoencoder.imagined"), 0, uint64_t(i * kEmbedding + c));
      const double mean = observed.mean()[size_t(c)], deviation = observed.deviation()[size_t(c)];
      values.push_back(std::clamp(mean + deviation * unit_normal(w[0], w[1]), -1.0, 1.0));
    }
  Shape shape = parse_shape(fmt::format("{}|{}", kCount, kEmbedding));
  plot::Sheet out{.title = "Decoded from random embeddings"};
  out.images = ctx.eval(network.decode(tensor(Array(shape, values), "embeddings")));
  out.columns = 12;
  return out;
}

}  // namespace

Recipe mnist_autoencoder_recipe(const Request& request) {
  const auto [digits, schedule, batch, step, x, labels] =
      digit_batches(request, find_recipe("mnist-autoencoder").defaults);

  const Autoencoder network;
  Tensor z = network.embed(x);
  Tensor reconstruction = nn::mse(network.decode(z), x).named("reconstruction");
  Tensor loss = (kReconstructionWeight * reconstruction + nn::cross_entropy(network.head(z), labels)).named("loss");
  Tensor lr = linear_decay(step, double(schedule.steps), schedule.lr);

  Recipe out{schedule, loss, train_step(loss, chosen_optimizer(schedule, lr)), batch, step, lr};
  out.model = "784-64-32-16-32-64-784 tanh, and a head 16-10";
  const uint64_t seed = request.seed;
  auto more = [=](Findings& found, const Predictions& p, Context& ctx) {
    Tensor images = pixels(tensor(p.inputs));
    const double error = ctx.eval(nn::mse(network.decode(network.embed(images)), images)).item();
    found.numbers["reconstruction_error"] = error;
    found.result += fmt::format(", mean square error of a pixel {:.4f}", error);
    found.pictures = [=, classified = found.pictures]() {
      Context held = ctx;
      std::vector<Picture> out = classified();
      out.push_back({"interpolation.png", plot::png(interpolation(network, held, p))});
      out.push_back({"reconstructions.png", plot::png(reconstructions(network, held, p.inputs))});
      out.push_back({"imagined.png", plot::png(imagined(network, held, p.inputs, seed))});
      return out;
    };
  };
  add_digit_findings(
      out, digits, [=](const Tensor& x) { return network.digit(network.embed(x)); }, more);
  return out;
}

std::vector<Part> mnist_autoencoder_parts(const Request&) {
  const Autoencoder network;
  return {
      {"classifier", parse_shape(kDigitShape),
       [=](const Tensor& x) {
         std::vector<Part::Layer> out = network.encoder_layers(x);
         out.push_back({"probabilities", network.digit(out.back().value)});
         return out;
       },
       true},
      {"encoder", parse_shape(kDigitShape), [=](const Tensor& x) { return network.encoder_layers(x); }},
      {"decoder", parse_shape(std::to_string(kEmbedding)), [=](const Tensor& z) { return network.decoder_layers(z); }},
      {"autoencoder", parse_shape(kDigitShape), [=](const Tensor& x) {
         std::vector<Part::Layer> out = network.encoder_layers(x);
         for (const Part::Layer& layer : network.decoder_layers(out.back().value)) out.push_back(layer);
         return out;
       }}};
}

}  // namespace caravan::app
