#include "random_fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "caravan/parity/model.h"

namespace caravan::parity {
namespace {

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {
    const int kind = pick(10);
    if (kind < 2)
      gpt();
    else {
      if (kind < 6)
        image();
      else if (kind < 8)
        ids();
      else
        points();
      model_ = fmt::format(R"({{"type": "sequential", "layers": [{}]}})", fmt::join(layers_, ", "));
    }
    fill();
  }
  const data::Tensors& tensors() const { return tensors_; }
  const std::string& model() const { return model_; }

 private:
  int64_t pick(int64_t n) { return int64_t(random_() % uint32_t(n)); }
  int64_t between(int64_t low, int64_t high) { return low + pick(high - low + 1); }
  bool one_in(int64_t n) { return pick(n) == 0; }
  double real(double low, double high) { return low + (high - low) * double(random_() >> 8) / double(1u << 24); }
  template <class T>
  T any(const std::vector<T>& list) {
    return list[size_t(pick(int64_t(list.size())))];
  }
  // A number, or a pair where the two differ or by chance.
  std::string written(const Pair& p) {
    return p[0] == p[1] && !one_in(3) ? std::to_string(p[0]) : fmt::format("[{}, {}]", p[0], p[1]);
  }
  static int64_t product(const Sizes& sizes) {
    int64_t out = 1;
    for (int64_t size : sizes) out *= size;
    return out;
  }
  using Layers = std::vector<std::string>;

  // --- layers; `s` is the size of an example and follows them ---
  void activation(Layers& out) {
    out.push_back(
        fmt::format(R"({{"type": "{}"}})", any<std::string>({"relu", "tanh", "sigmoid", "gelu", "gelu_tanh", "silu"})));
  }
  int64_t linear(Layers& out, Sizes& s, int64_t to, bool bias) {  // returns how many weights an output depends on
    const int64_t from = s.back();
    out.push_back(fmt::format(R"({{"type": "linear", "in": {}, "out": {}{}}})", s.back(), to,
                              bias ? one_in(2) ? "" : R"(, "bias": true)" : R"(, "bias": false)"));
    s.back() = to;
    return from;
  }
  int64_t conv(Layers& out, Sizes& s, bool same_size, bool bias) {
    const int64_t groups =
        any<int64_t>(s[0] % 2 == 0 ? std::vector<int64_t>{1, 1, 2, s[0]} : std::vector<int64_t>{1, 1, s[0]});
    const int64_t to = same_size ? s[0] : groups * between(1, std::max<int64_t>(1, 6 / groups));
    Pair kernel, stride{1, 1}, padding{0, 0}, dilation{1, 1}, reaching{0, 0};
    for (size_t i : {0, 1}) {
      const int64_t in = s[i + 1];
      if (same_size) {
        kernel[i] = any<int64_t>({1, 3, 3}), dilation[i] = between(1, 2),
        padding[i] = dilation[i] * (kernel[i] - 1) / 2;
      } else {
        padding[i] = pick(3), kernel[i] = between(1, std::min<int64_t>(5, in + 2 * padding[i]));
        if (2 * (kernel[i] - 1) < in) dilation[i] = between(1, 2);
        stride[i] = between(1, 3);
        s[i + 1] = (in + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
      }
      for (int64_t k = 0; k < kernel[i]; ++k) {  // those that meet more than padding
        bool inside = false;
        for (int64_t o = 0; o < s[i + 1]; ++o) {
          const int64_t at = stride[i] * o + dilation[i] * k - padding[i];
          inside = inside || (at >= 0 && at < in);
        }
        reaching[i] += inside;
      }
    }
    std::string text =
        fmt::format(R"({{"type": "conv2d", "in": {}, "out": {}, "kernel": {})", s[0], to, written(kernel));
    auto option = [&](const char* name, const Pair& value, int64_t otherwise) {
      if (value != Pair{otherwise, otherwise} || one_in(4)) text += fmt::format(R"(, "{}": {})", name, written(value));
    };
    option("stride", stride, 1), option("padding", padding, 0), option("dilation", dilation, 1);
    if (groups != 1 || one_in(4)) text += fmt::format(R"(, "groups": {})", groups);
    if (!bias) text += R"(, "bias": false)";
    out.push_back(text + "}");
    const int64_t from = s[0] / groups;
    s[0] = to;
    return from * reaching[0] * reaching[1];
  }
  void pool(Layers& out, Sizes& s) {
    Pair kernel, stride;
    const bool own_stride = one_in(2);
    for (size_t i : {0, 1}) {
      kernel[i] = between(1, std::min<int64_t>(3, s[i + 1])), stride[i] = own_stride ? between(1, 3) : kernel[i];
      s[i + 1] = (s[i + 1] - kernel[i]) / stride[i] + 1;
    }
    out.push_back(fmt::format(R"({{"type": "{}", "kernel": {}{}}})", one_in(2) ? "max_pool2d" : "avg_pool2d",
                              written(kernel), own_stride ? R"(, "stride": )" + written(stride) : ""));
  }
  void norm(Layers& out, const Sizes& s) {
    if (s.size() == 3 && one_in(2))
      out.push_back(fmt::format(R"({{"type": "batch_norm2d", "features": {}}})", s[0]));
    else if (one_in(2))
      out.push_back(fmt::format(R"({{"type": "batch_norm", "features": {}}})", s.back()));
    else if (s.size() > 1 && one_in(2) && product(s) >= 4)
      out.push_back(fmt::format(R"({{"type": "layer_norm", "features": [{}]}})", fmt::join(s, ", ")));
    else if (s.back() >= 4)
      out.push_back(fmt::format(R"({{"type": "layer_norm", "features": {}}})", s.back()));
  }
  // A map that keeps or changes the size, with a norm and an activation behind it or not.
  void mapped(Layers& out, Sizes& s, bool same_size) {
    const bool normed = one_in(3), images = s.size() == 3;
    const int64_t weights = images && !one_in(6)
                                ? conv(out, s, same_size, !normed && !one_in(4))
                                : linear(out, s, same_size ? s.back() : between(4, 10), !normed && !one_in(4));
    if (normed && weights > 1) norm(out, s);  // a norm takes a single weight away again
    if (!one_in(4)) activation(out);
  }
  void residual(Layers& out, Sizes& s) {
    Layers body;
    mapped(body, s, true);
    if (one_in(2)) mapped(body, s, true);
    if (one_in(6)) residual(body, s);
    out.push_back(fmt::format(R"({{"type": "residual", "layers": [{}]}})", fmt::join(body, ", ")));
  }
  void body(Sizes& s, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      if (one_in(4))
        residual(layers_, s);
      else if (s.size() == 3 && one_in(3))
        pool(layers_, s);
      else
        mapped(layers_, s, false);
    }
  }
  void flatten(Sizes& s) {
    layers_.push_back(R"({"type": "flatten"})");
    s = {product(s)};
  }

  // --- models ---
  void head(Sizes& s) {
    const int64_t outputs = between(2, 7);
    linear(layers_, s, outputs, !one_in(3));
    loss_ = any<std::string>({"cross_entropy", "cross_entropy", "mse", "hinge"});
    targets_ = s;
  }
  void image() {
    batch_ = between(4, 6), example_ = {between(1, 4), between(4, 9), between(4, 9)};
    Sizes s = example_;
    body(s, between(1, 3));
    flatten(s);
    if (one_in(3)) body(s, 1);
    head(s);
  }
  void points() {
    batch_ = between(5, 8), example_ = {between(4, 12)};
    Sizes s = example_;
    body(s, between(1, 4));
    head(s);
  }
  void ids() {
    vocabulary_ = between(5, 20), batch_ = between(5, 8);
    const int64_t dim = between(4, 8);
    layers_.push_back(fmt::format(R"({{"type": "embedding", "num": {}, "dim": {}}})", vocabulary_, dim));
    if (one_in(6))
      example_ = {};
    else
      example_ = {any<int64_t>({2, 3, 4, 8})};
    Sizes s = example_;
    s.push_back(dim);
    while (s.size() == 2 && !one_in(3)) {
      std::vector<int64_t> divisors;
      for (int64_t n = 2; n <= s[0]; ++n)
        if (s[0] % n == 0) divisors.push_back(n);
      if (divisors.empty()) break;
      const int64_t n = any(divisors);
      layers_.push_back(fmt::format(R"({{"type": "flatten_consecutive", "n": {}}})", n));
      s = s[0] == n ? Sizes{n * s[1]} : Sizes{s[0] / n, n * s[1]};
      body(s, 1);
    }
    if (s.size() == 2 && one_in(2)) flatten(s);
    body(s, pick(3));
    head(s);
  }
  void gpt() {
    const int64_t heads = any<int64_t>({1, 2, 3, 4}), dim = heads * between(6 / heads, 6), ctx = between(3, 10);
    vocabulary_ = between(5, 20), batch_ = between(2, 4), example_ = {between(2, ctx)}, loss_ = "cross_entropy";
    const bool tied = one_in(2);
    model_ =
        fmt::format(R"({{"type": "gpt", "vocab": {}, "ctx": {}, "dim": {}, "heads": {}, "layers": {}, "tied": {}}})",
                    vocabulary_, ctx, dim, heads, between(1, 2), tied);
    targets_ = {example_[0], vocabulary_};
  }

  // --- words and numbers ---
  std::string optimizer() {
    const int kind = int(pick(6));
    auto option = [&](const char* name, double value) { return fmt::format(R"(, "{}": {})", name, value); };
    if (kind < 3) {
      std::string out = R"({"name": "sgd")" + option("lr", real(0.005, 0.05));
      if (kind > 0) out += option("momentum", real(0.5, 0.95));
      if (kind > 1) out += R"(, "nesterov": true)";
      if (one_in(2)) out += option("weight_decay", real(0, 0.1));
      return out + "}";
    }
    std::string out =
        std::string(R"({"name": )") + (kind < 5 ? R"("adam")" : R"("adamw")") + option("lr", real(1e-4, 1e-3));
    if (one_in(2)) out += fmt::format(R"(, "betas": [{}, {}])", real(0.8, 0.95), real(0.9, 0.999));
    const bool batch_normed = model_.find("batch_norm") != model_.npos;
    if (one_in(2) || batch_normed) out += option("eps", batch_normed ? 1e-3 : any<double>({1e-8, 1e-6}));
    if (one_in(2)) out += option("weight_decay", real(0, 0.1));
    return out + "}";
  }
  Array drawn(const Sizes& sizes, const std::function<double()>& draw, DType dtype = DType::f32) {
    Shape shape;
    for (int64_t size : sizes) shape.output.push_back({size});
    Array out(shape, dtype);
    for (int64_t i = 0; i < out.size(); ++i) out.set(i, draw());
    return out;
  }
  static Sizes behind(Sizes front, const Sizes& back) {
    front.insert(front.end(), back.begin(), back.end());
    return front;
  }
  static bool any_of(const std::vector<Counterpart>& list, const std::string& name, const Sizes& sizes) {
    return std::any_of(list.begin(), list.end(),
                       [&](const Counterpart& c) { return c.name == name && c.sizes == sizes; });
  }
  void fill() {
    const int64_t steps = between(2, 4);
    tensors_.metadata = {{"fixture", "1"}, {"name", "random"},         {"model", model_},
                         {"loss", loss_},  {"optimizer", optimizer()}, {"steps", std::to_string(steps)}};
    auto add = [&](const std::string& name, const Array& array) { tensors_.list[name] = data::stored(array); };
    const Sizes x = behind({steps, batch_}, example_);
    auto normal = [&] { return std::normal_distribution<double>()(random_); };
    add("x", vocabulary_ ? drawn(
                               x, [&] { return double(pick(vocabulary_)); }, DType::i64)
                         : drawn(x, normal));
    if (loss_ == "cross_entropy") {
      const int64_t classes = targets_.back();
      targets_.pop_back();
      add("y", drawn(
                   behind({steps, batch_}, targets_), [&] { return double(pick(classes)); }, DType::i64));
    } else {
      const bool signs = loss_ == "hinge";
      add("y", drawn(behind({steps, batch_}, targets_), [&] { return signs ? (one_in(2) ? 1 : -1) : normal(); }));
    }
    const Model model = build(parse_model(model_), example_);
    for (const Counterpart& c : model.parameters) {
      double fan_in = 1;
      for (size_t i = 1; i < c.sizes.size(); ++i) fan_in *= double(c.sizes[i]);
      // The weight of a norm is near 1; it has the shape of the norm's bias.
      const bool of_norm = c.name.ends_with(".weight") &&
                           any_of(model.parameters, c.name.substr(0, c.name.size() - 6) + "bias", c.sizes);
      const double bound = of_norm || c.name.ends_with(".bias") ? 0.3 : 1 / std::sqrt(fan_in);
      add("param." + c.name, drawn(c.sizes, [&] { return (of_norm ? 1 : 0) + real(-bound, bound); }));
    }
    for (const Counterpart& c : model.buffers)
      add("buffer." + c.name, drawn(c.sizes, [&] { return c.name.ends_with("var") ? real(0.5, 2) : real(-0.5, 0.5); }));
  }

  std::mt19937 random_;
  Layers layers_;
  std::string model_, loss_;
  int64_t batch_ = 0, vocabulary_ = 0;
  Sizes example_, targets_;
  data::Tensors tensors_;
};

}  // namespace

RandomFixture::RandomFixture(uint32_t seed) {
  const Generator generated(seed);
  model = generated.model();
  tensors = generated.tensors();
}

data::Tensors completed(data::Tensors tensors, const Arrays& results) {
  for (const auto& [name, array] : results) tensors.list[name] = data::stored(array.cast(DType::f32));
  return tensors;
}

}  // namespace caravan::parity
