#include "caravan/parity/model.h"

#include <fmt/format.h>

#include <numeric>

#include "caravan/base/error.h"
#include "caravan/nn/activation.h"
#include "caravan/nn/conv.h"
#include "caravan/nn/embedding.h"
#include "caravan/nn/linear.h"
#include "caravan/nn/norm.h"
#include "caravan/nn/transformer.h"
#include "caravan/tensor/functions.h"

namespace caravan::parity {

namespace {

nn::Pair pair(const Pair& p) { return {p[0], p[1]}; }
nn::Padding padding(const Pair& p) { return {p[0], p[1]}; }

int64_t product(const Sizes& sizes) {
  int64_t out = 1;
  for (const int64_t size : sizes) out *= size;
  return out;
}

// Where a value's axes are: PyTorch's order, the last `outputs` of them as output axes and those before as batch axes;
// or an image, which PyTorch has as c, h, w and our convolutions as h, w, c.
struct Form {
  size_t outputs = 1;
  bool image = false;
  bool operator==(const Form&) const = default;
};
constexpr Form kImage = {3, true};
constexpr Form kIds = {0};

// "b, a0 | a1": a value of `rank` axes after the batch.
std::string pattern(size_t rank, const Form& form) {
  if (form.image) return "b | a1, a2, a0";
  std::string out = "b";
  for (size_t i = 0; i < rank; ++i) out += fmt::format("{} a{}", i + form.outputs == rank ? " |" : ",", i);
  return out;
}

// Layers in a row, and what is known of the value between them.
class Builder {
 public:
  Builder(Sizes sizes, Form form) : sizes_(std::move(sizes)), form_(form) {}

  void add(const Layer& layer, const std::string& position) {
    at_ = position;
    std::visit([&](const auto& l) { add(l); }, layer);
  }

  // From here on the axes are where `form` says.
  void arrange(const Form& form) {
    if (form_ == form) return;
    const size_t rank = sizes_.size();
    layers_.push_back(nn::Rearrange{pattern(rank, form_) + " => " + pattern(rank, form)});
    form_ = form;
  }

  nn::Layer layer() const { return nn::Sequential(layers_); }
  const Sizes& sizes() const { return sizes_; }
  const std::vector<Counterpart>& parameters() const { return parameters_; }
  const std::vector<Counterpart>& buffers() const { return buffers_; }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw ConfigError(fmt::format("layer {} of the model {}.", at_, problem));
  }
  std::string got() const {
    return fmt::format("gets [batch{}{}]", sizes_.empty() ? "" : ", ", fmt::join(sizes_, ", "));
  }

  void parameter(const char* suffix, Sizes sizes, std::vector<int> order = {}) {
    parameters_.push_back(counterpart(suffix, std::move(sizes), std::move(order)));
  }
  Counterpart counterpart(const char* suffix, Sizes sizes, std::vector<int> order = {}) const {
    if (order.empty()) {
      order.resize(sizes.size());
      std::iota(order.begin(), order.end(), 0);
    }
    return {at_ + suffix, std::move(sizes), std::move(order)};
  }

  void need_last(const char* what, int64_t features) const {
    if (sizes_.empty() || sizes_.back() != features) refuse(fmt::format("takes {} {} but {}", features, what, got()));
  }
  void need_image(int64_t channels) const {
    if (sizes_.size() != 3 || (channels && sizes_[0] != channels))
      refuse(fmt::format("takes images of {} channels but {}", channels ? std::to_string(channels) : "some", got()));
  }
  // The size of the image after a window has passed over it.
  void window(const Pair& kernel, const Pair& stride, const Pair& padded, const Pair& dilation) {
    for (const size_t i : {0, 1}) {
      const int64_t room = sizes_[i + 1] + 2 * padded[i] - dilation[i] * (kernel[i] - 1) - 1;
      if (room < 0) refuse(fmt::format("has a window that does not fit: it {}", got()));
      sizes_[i + 1] = room / stride[i] + 1;
    }
  }

  void add(const Linear& l) {
    need_last("features", l.in);
    arrange({1});
    layers_.push_back(nn::Linear(at_, {.output = {l.out}, .input = {l.in}, .bias = l.bias}));
    parameter(".weight", {l.out, l.in});
    if (l.bias) parameter(".bias", {l.out});
    sizes_.back() = l.out;
  }

  void add(const Conv2d& l) {
    need_image(l.in);
    arrange(kImage);
    layers_.push_back(nn::Conv2d(at_, {.channels = l.out,
                                       .kernel = pair(l.kernel),
                                       .stride = pair(l.stride),
                                       .padding = padding(l.padding),
                                       .dilation = pair(l.dilation),
                                       .groups = l.groups,
                                       .bias = l.bias}));
    parameter(".weight", {l.out, l.in / l.groups, l.kernel[0], l.kernel[1]}, {0, 2, 3, 1});
    if (l.bias) parameter(".bias", {l.out});
    window(l.kernel, l.stride, l.padding, l.dilation);
    sizes_[0] = l.out;
  }

  void add(const Pool2d& l) {
    need_image(0);
    arrange(kImage);
    const nn::PoolOptions options{.kernel = pair(l.kernel), .stride = pair(l.stride), .padding = padding(l.padding)};
    if (l.kind == Pool2d::Kind::max)
      layers_.push_back(nn::MaxPool2d{options});
    else
      layers_.push_back(nn::AvgPool2d{options});
    window(l.kernel, l.stride, l.padding, {1, 1});
  }

  void add(const Flatten&) {
    if (sizes_.empty()) refuse(fmt::format("has nothing to flatten: it {}", got()));
    if (sizes_.size() == 1) return;
    arrange({1});
    std::string merged = "a0";
    for (size_t i = 1; i < sizes_.size(); ++i) merged += fmt::format("&a{}", i);
    layers_.push_back(nn::Rearrange{pattern(sizes_.size(), form_) + " => b | " + merged});
    sizes_ = {product(sizes_)};
  }

  void add(const FlattenConsecutive& l) {
    if (sizes_.size() != 2 || sizes_[0] % l.n != 0)
      refuse(fmt::format("joins {} steps of [batch, time, channel] but {}", l.n, got()));
    arrange({1});
    const int64_t steps = sizes_[0] / l.n, channels = sizes_[1] * l.n;
    layers_.push_back(nn::FlattenConsecutive{.n = l.n, .last = steps == 1});
    sizes_ = steps == 1 ? Sizes{channels} : Sizes{steps, channels};
  }

  void add(const BatchNorm& l) {
    if (l.images) {
      need_image(l.features);
      arrange(kImage);
    } else {
      if (sizes_.empty() || (l.features && sizes_.back() != l.features)) need_last("features", l.features);
      arrange({1});
    }
    const int64_t features = l.images ? sizes_[0] : sizes_.back();
    layers_.push_back(nn::BatchNorm(at_, {.momentum = l.momentum, .epsilon = l.eps}));
    parameter(".weight", {features});
    parameter(".bias", {features});
    buffers_.push_back(counterpart(".running_mean", {features}));
    buffers_.push_back(counterpart(".running_var", {features}));
  }

  void add(const LayerNorm& l) {
    const size_t rank = sizes_.size(), over = l.sizes.empty() ? 1 : l.sizes.size();
    const Sizes last(sizes_.end() - std::ptrdiff_t(std::min(over, rank)), sizes_.end());
    if (over > rank || (!l.sizes.empty() && last != l.sizes))
      refuse(fmt::format("normalises over [{}] but {}", fmt::join(l.sizes, ", "), got()));
    arrange({over});
    // Our norm is over one axis, so several are merged for it.
    std::string merged;
    for (size_t i = rank - over; i < rank; ++i) merged += fmt::format("{}a{}", merged.empty() ? "" : "&", i);
    const std::string apart = pattern(rank, form_), together = apart.substr(0, apart.find('|')) + "| " + merged;
    Bindings sizes;
    for (size_t i = rank - over; i < rank; ++i) sizes.list.push_back({fmt::format("a{}", i), sizes_[i]});
    if (over > 1) layers_.push_back(nn::Rearrange{apart + " => " + together});
    layers_.push_back(nn::LayerNorm(at_, {.epsilon = l.eps}));
    if (over > 1) layers_.push_back(nn::Rearrange{together + " => " + apart, sizes});
    parameter(".weight", last);
    parameter(".bias", last);
  }

  void add(const Embedding& l) {
    if (form_ != kIds) refuse("is an embedding, which takes ids; it must be the first layer");
    layers_.push_back(nn::Embedding(at_, {.num = l.num, .dim = l.dim}));
    parameter(".weight", {l.num, l.dim});
    sizes_.push_back(l.dim);
    form_ = {1};
  }

  void add(const Activation& l) {
    const std::pair<const char*, nn::Layer> rows[] = {{"relu", nn::Relu{}},          {"tanh", nn::Tanh{}},
                                                      {"sigmoid", nn::Sigmoid{}},    {"gelu", nn::Gelu{}},
                                                      {"gelu_tanh", nn::GeluTanh{}}, {"silu", nn::Silu{}}};
    for (const auto& [name, layer] : rows)
      if (l.name == name) return layers_.push_back(layer);
    throw InternalError("there is no activation `" + l.name + "`");
  }

  void add(const Residual& l) {
    Builder body(sizes_, form_);
    const std::string at = at_;
    for (size_t i = 0; i < l.body.size(); ++i) body.add(l.body[i], fmt::format("{}.body.{}", at, i));
    if (body.sizes_ != sizes_)
      refuse(fmt::format("adds [batch, {}] to what it gets: it {}", fmt::join(body.sizes_, ", "), got()));
    body.arrange(form_);
    layers_.push_back(nn::Residual(body.layer()));
    parameters_.insert(parameters_.end(), body.parameters_.begin(), body.parameters_.end());
    buffers_.insert(buffers_.end(), body.buffers_.begin(), body.buffers_.end());
  }

  Sizes sizes_;
  Form form_;
  std::string at_;
  std::vector<nn::Layer> layers_;
  std::vector<Counterpart> parameters_, buffers_;
};

// Visits (i, j): element i of the array that has the axes in `order` is element j of the array of `sizes`.
template <class Visit>
void for_each_permuted(const Sizes& sizes, const std::vector<int>& order, const Visit& visit) {
  std::vector<int64_t> strides(sizes.size(), 1), index(sizes.size(), 0);
  for (size_t a = sizes.size(); a-- > 1;) strides[a - 1] = strides[a] * sizes[a];
  const int64_t elements = product(sizes);
  for (int64_t i = 0; i < elements; ++i) {
    int64_t from = 0;
    for (size_t a = 0; a < sizes.size(); ++a) from += index[a] * strides[size_t(order[a])];
    visit(i, from);
    for (size_t a = sizes.size(); a-- > 0;) {
      if (++index[a] < sizes[size_t(order[a])]) break;
      index[a] = 0;
    }
  }
}

Model sequential(const Sequential& description, const Sizes& example) {
  const auto* embedding = std::get_if<Embedding>(&description.layers[0]);
  Builder builder(example, embedding ? kIds : Form{});
  if (!embedding && example.empty()) throw ConfigError("`x` has no axis after the batch, which only ids may lack.");
  for (size_t i = 0; i < description.layers.size(); ++i) builder.add(description.layers[i], std::to_string(i));
  builder.arrange({1});
  return {builder.layer(), builder.parameters(), builder.buffers(), embedding ? embedding->num : 0, builder.sizes()};
}

Model gpt(const Gpt& g, const Sizes& example) {
  if (example.size() != 1 || example[0] > g.ctx)
    throw ConfigError(fmt::format("the model takes sequences of at most {} ids, but `x` has [{}] for each example.",
                                  g.ctx, fmt::join(example, ", ")));
  std::vector<Counterpart> all = {{"tok.weight", {g.vocab, g.dim}, {0, 1}}, {"pos.weight", {g.ctx, g.dim}, {0, 1}}};
  auto vector = [&](const std::string& name, int64_t size) { all.push_back({name, {size}, {0}}); };
  auto matrix = [&](const std::string& name, int64_t out, int64_t in) { all.push_back({name, {out, in}, {0, 1}}); };
  auto norm = [&](const std::string& name) { vector(name + ".weight", g.dim), vector(name + ".bias", g.dim); };
  auto linear = [&](const std::string& name, int64_t out, int64_t in) {
    matrix(name + ".weight", out, in), vector(name + ".bias", out);
  };
  for (int64_t i = 0; i < g.layers; ++i) {
    const std::string block = fmt::format("blocks.{}.", i);
    norm(block + "ln1"), norm(block + "ln2");
    matrix(block + "attn.qkv.weight", 3 * g.dim, g.dim), linear(block + "attn.proj", g.dim, g.dim);
    linear(block + "up", 4 * g.dim, g.dim), linear(block + "down", g.dim, 4 * g.dim);
  }
  norm("ln");
  if (!g.tied) matrix("head.weight", g.vocab, g.dim);
  if (!g.tied && g.head_bias) vector("head.bias", g.vocab);
  const nn::Gpt model({.vocab = g.vocab,
                       .ctx = g.ctx,
                       .dim = g.dim,
                       .heads = g.heads,
                       .layers = g.layers,
                       .tied = g.tied,
                       .head_bias = g.head_bias});
  return {model, all, {}, g.vocab, {example[0], g.vocab}};
}

}  // namespace

Shape output_axes(const Sizes& sizes) {
  Shape out;
  for (const int64_t size : sizes) out.output.push_back({size});
  return out;
}

Array Counterpart::to_ours(const Array& theirs, const Shape& shape) const {
  Array out(shape, theirs.dtype());
  for_each_permuted(sizes, order, [&](int64_t ours, int64_t their) { out.set(ours, theirs.at(their)); });
  return out;
}
Array Counterpart::to_theirs(const Array& ours) const {
  Array out(output_axes(sizes), ours.dtype());
  for_each_permuted(sizes, order, [&](int64_t our, int64_t theirs) { out.set(theirs, ours.at(our)); });
  return out;
}

Model build(const ModelDescription& description, const Sizes& example) {
  if (const auto* g = std::get_if<Gpt>(&description)) return gpt(*g, example);
  return sequential(std::get<Sequential>(description), example);
}

}  // namespace caravan::parity
