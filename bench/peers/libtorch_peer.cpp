// The workloads of `caravan bench` in libtorch, without Python. bench/compare compiles it, and starts it with the path
// of a manifest, which it writes because C++ has no reader of JSON: lines `file PATH`, `name NAME`, `optimizer sgd LR
// MOMENTUM DECAY`, and `tensor NAME TYPE OFFSET SIZE...` for every tensor of a record. worker.py has the protocol.
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

using torch::Tensor;

struct Record {
  std::string name, optimizer;
  double lr = 0, momentum = 0, decay = 0;
  std::map<std::string, Tensor> tensors;

  explicit Record(const std::string& manifest) {
    std::ifstream lines(manifest);
    std::string line, content;
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string kind;
      words >> kind;
      if (kind == "name") words >> name;
      if (kind == "optimizer") words >> optimizer >> lr >> momentum >> decay;
      if (kind == "file") {
        std::ifstream file(line.substr(5), std::ios::binary);
        content.assign(std::istreambuf_iterator<char>(file), {});
      }
      if (kind != "tensor") continue;
      std::string tensor, type;
      int64_t offset = 0;
      words >> tensor >> type >> offset;
      std::vector<int64_t> sizes;
      for (int64_t size = 0; words >> size;) sizes.push_back(size);
      const auto dtype = type == "I32" ? torch::kInt32 : torch::kFloat32;
      Tensor value = torch::from_blob(content.data() + offset, sizes, dtype).clone();
      tensors[tensor] = type == "I32" ? value.to(torch::kInt64) : value;
    }
  }
};

// Parameters in PyTorch's layouts, by our names.
class Model {
 public:
  explicit Model(const Record& record) {
    for (const auto& [name, value] : record.tensors) {
      if (name.rfind("param.", 0) != 0) continue;
      const std::string own = name.substr(6);
      p_[own] = in_their_layout(own, value).contiguous().requires_grad_(true);
    }
    auto model = [&](Tensor (Model::*call)(const Tensor&)) { call_ = call; };
    const std::string& name = record.name;
    if (name.rfind("names-mlp", 0) == 0)
      model(&Model::names_mlp);
    else if (name == "names-wavenet")
      model(&Model::names_wavenet);
    else if (name == "lenet")
      model(&Model::lenet);
    else if (has("tok.weight"))
      model(&Model::gpt);
    else
      model(&Model::mlp);
    heads_ = name == "gpt-char-b4" ? 6 : 4;
    tanh_ = name == "camelax-mnist";
  }
  Tensor operator()(const Tensor& x) { return (this->*call_)(x); }
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> out;
    for (const auto& [name, value] : p_) out.push_back(value);
    return out;
  }

 private:
  static Tensor in_their_layout(const std::string& name, const Tensor& value) {
    auto ends = [&](const std::string& with) {
      return name.size() >= with.size() && name.compare(name.size() - with.size(), with.size(), with) == 0;
    };
    if (value.dim() == 1) return value;
    if (name.rfind("conv", 0) == 0) return value.permute({0, 3, 1, 2});
    if (name == "dense1.weight") return value.reshape({value.size(0), 5, 5, -1}).permute({0, 3, 1, 2}).flatten(1);
    if (ends("qkv.weight")) return value.reshape({-1, value.size(-1)});
    return value.flatten(1);
  }

  bool has(const std::string& name) const { return p_.count(name) != 0; }
  Tensor linear(const std::string& name, const Tensor& x) {
    return has(name + ".bias") ? torch::linear(x, p_.at(name + ".weight"), p_.at(name + ".bias"))
                               : torch::linear(x, p_.at(name + ".weight"));
  }
  Tensor layer_norm(const std::string& name, const Tensor& x) {
    return torch::layer_norm(x, {x.size(-1)}, p_.at(name + ".weight"), p_.at(name + ".bias"));
  }
  Tensor batch_norm(const std::string& name, const Tensor& x) {  // over the last axis
    Tensor &mean = mean_[name], &variance = variance_[name];
    if (!mean.defined()) mean = torch::zeros(x.size(-1)), variance = torch::ones(x.size(-1));
    auto norm = [&](const Tensor& channels_second) {
      return torch::batch_norm(channels_second, p_.at(name + ".weight"), p_.at(name + ".bias"), mean, variance, true,
                               0.1, 1e-5, false);
    };
    return x.dim() == 2 ? norm(x) : norm(x.transpose(1, 2)).transpose(1, 2);
  }

  Tensor mlp(const Tensor& input) {
    Tensor x = input;
    for (int i = 0; has("mlp." + std::to_string(i) + ".weight"); ++i) {
      if (i > 0) x = tanh_ ? torch::tanh(x) : torch::relu(x);
      x = linear("mlp." + std::to_string(i), x);
    }
    return x;
  }
  Tensor names_mlp(const Tensor& ids) {
    Tensor x = linear("hidden", torch::embedding(p_.at("letters.weight"), ids).flatten(1));
    if (has("norm.weight")) x = batch_norm("norm", x);
    return linear("next", torch::tanh(x));
  }
  Tensor names_wavenet(const Tensor& ids) {
    Tensor x = torch::embedding(p_.at("letters.weight"), ids);
    for (const char* level : {"level1", "level2", "level3"}) {
      x = linear(level, x.reshape({x.size(0), x.size(1) / 2, 2 * x.size(2)}).squeeze(1));
      x = torch::tanh(batch_norm(std::string(level) + ".norm", x));
    }
    return linear("next", x);
  }
  Tensor lenet(const Tensor& images) {
    Tensor x = images;
    for (const std::string name : {"conv1", "conv2"})
      x = torch::max_pool2d(torch::relu(torch::conv2d(x, p_.at(name + ".weight"), p_.at(name + ".bias"))), 2);
    return linear("dense2", torch::relu(linear("dense1", x.flatten(1))));
  }
  Tensor attend(const std::string& name, const Tensor& x) {
    const int64_t b = x.size(0), t = x.size(1), c = x.size(2);
    std::vector<Tensor> parts = linear(name + ".qkv", x).split(c, 2);
    for (Tensor& part : parts) part = part.view({b, t, heads_, c / heads_}).transpose(1, 2);
#if TORCH_VERSION_MAJOR >= 2
    Tensor seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, true);
#else
    const Tensor hidden = torch::ones({t, t}, torch::kBool).tril().logical_not();
    const Tensor scores = parts[0].matmul(parts[1].transpose(-1, -2)) / std::sqrt(double(c / heads_));
    Tensor seen = scores.masked_fill(hidden, -INFINITY).softmax(-1).matmul(parts[2]);
#endif
    return linear(name + ".proj", seen.transpose(1, 2).reshape({b, t, c}));
  }
  Tensor gpt(const Tensor& ids) {
    Tensor x = torch::embedding(p_.at("tok.weight"), ids) + p_.at("pos.weight").slice(0, 0, ids.size(1));
    for (int i = 0; has("blocks." + std::to_string(i) + ".up.weight"); ++i) {
      const std::string block = "blocks." + std::to_string(i);
      x = x + attend(block + ".attn", layer_norm(block + ".ln1", x));
      x = x + linear(block + ".down", torch::gelu(linear(block + ".up", layer_norm(block + ".ln2", x)), "tanh"));
    }
    return linear("head", layer_norm("ln", x));
  }

  std::map<std::string, Tensor> p_, mean_, variance_;
  Tensor (Model::*call_)(const Tensor&) = nullptr;
  int64_t heads_ = 1;
  bool tanh_ = false;
};

Tensor loss_of(const std::string& name, const Tensor& output, const Tensor& y) {
  if (name == "camelax-mul") return torch::mse_loss(output, y);
  if (name == "moons") return torch::relu(1 - y * output).mean();
  return torch::cross_entropy_loss(output.flatten(0, -2), y.flatten());
}

std::unique_ptr<torch::optim::Optimizer> optimizer_of(const Record& r, const std::vector<Tensor>& parameters) {
  using namespace torch::optim;
  if (r.optimizer == "adam") return std::make_unique<Adam>(parameters, AdamOptions(r.lr).weight_decay(r.decay));
  if (r.optimizer == "adamw") return std::make_unique<AdamW>(parameters, AdamWOptions(r.lr).weight_decay(r.decay));
  return std::make_unique<SGD>(parameters, SGDOptions(r.lr).momentum(r.momentum).weight_decay(r.decay));
}

struct Peer {
  double difference = 0;  // to what was recorded
  std::function<void(int64_t steps)> run;
};

Peer product(const Record& record) {
  torch::NoGradGuard no_gradients;
  Tensor a = record.tensors.at("param.a"), b = record.tensors.at("param.b"), expected = record.tensors.at("result");
  const std::string ending = record.name.size() > 3 ? record.name.substr(record.name.size() - 3) : "";
  if (ending == "-tn") a = a.t();
  if (ending == "-nt") b = b.t();
  const double difference = ((a.mm(b) - expected).abs().max() / expected.abs().max()).item<double>();
  return {difference, [=](int64_t steps) {
            torch::NoGradGuard none;
            for (int64_t s = 0; s < steps; ++s) a.mm(b);
          }};
}

Peer training(const Record& record) {
  auto model = std::make_shared<Model>(record);
  std::shared_ptr<torch::optim::Optimizer> optimizer = optimizer_of(record, model->parameters());
  Tensor x = record.tensors.at("data.x");
  if (record.name == "lenet") x = x.permute({0, 1, 4, 2, 3}).contiguous();
  const std::vector<Tensor> xs = x.unbind(0), ys = record.tensors.at("data.y").unbind(0);
  auto at = std::make_shared<size_t>(0);
  auto step = [=, name = record.name] {
    const size_t batch = (*at)++ % xs.size();
    optimizer->zero_grad();
    Tensor loss = loss_of(name, (*model)(xs[batch]), ys[batch]);
    loss.backward();
    optimizer->step();
    return loss;
  };
  const Tensor expected = record.tensors.at("losses").to(torch::kFloat64);
  const double scale = expected.abs().max().item<double>();
  double difference = 0;
  for (int64_t s = 0; s < expected.size(0); ++s) {
    const double apart = std::abs(step().item<double>() - expected[s].item<double>()) / scale;
    if (!(apart <= difference)) difference = apart;
  }
  return {difference, [=](int64_t steps) {
            for (int64_t s = 0; s < steps; ++s) step();
          }};
}

double seconds_of(const Peer& peer, int64_t steps) {
  const auto start = std::chrono::steady_clock::now();
  peer.run(steps);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  torch::set_num_threads(std::atoi(arguments[2]));
  const Record record(arguments[1]);
  const Peer peer = record.tensors.count("result") ? product(record) : training(record);
  std::printf(std::isfinite(peer.difference) ? "{\"version\": \"%s\", \"difference\": %g}\n"
                                             : "{\"version\": \"%s\", \"difference\": NaN}\n",
              TORCH_VERSION, peer.difference);
  std::fflush(stdout);
  constexpr double kSample = 0.01;  // seconds, as caravan bench has it
  int64_t steps = 0;
  for (std::string line; std::getline(std::cin, line);) {
    if (steps == 0) {
      double spent = seconds_of(peer, steps = 1);
      while (spent < kSample / 4) spent = seconds_of(peer, steps *= 2);
      steps = std::max<int64_t>(1, int64_t(double(steps) * kSample / spent));
    }
    const auto start = std::chrono::steady_clock::now();
    std::string samples;
    for (int taken = 0;
         taken < 3 || std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < std::stod(line);
         ++taken)
      samples += (taken ? ", " : "") + std::to_string(1e6 * seconds_of(peer, steps) / double(steps));
    std::printf("{\"samples\": [%s]}\n", samples.c_str());
    std::fflush(stdout);
  }
}
