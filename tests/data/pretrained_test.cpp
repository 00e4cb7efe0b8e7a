// Models in files of other programs, against their formulas written out in plain loops.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include "caravan/base/random.h"
#include "caravan/data/atomic_file.h"
#include "caravan/data/tokenizer.h"
#include "caravan/pretrained/gpt2.h"
#include "caravan/pretrained/llama.h"
#include "caravan/tensor/infer.h"
#include "refusal.h"
#include "temporary_folder.h"
#include "test_data.h"

namespace caravan::pretrained {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<float>;  // row by row

// Numbers that depend on the name alone.
Matrix weights(const std::string& name, int64_t count, double around = 0) {
  Matrix out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(float(around + 0.3 * unit_normal(random_words(7, hash_name(name), 0, uint64_t(i))[0],
                                                   random_words(7, hash_name(name), 1, uint64_t(i))[1])));
  return out;
}
// rows x columns times a vector, with the matrix row by row or column by column.
Vector times(const Matrix& m, const Vector& x, int64_t rows, bool columns_first = false) {
  Vector out(size_t(rows), 0);
  for (size_t r = 0; r < out.size(); ++r)
    for (size_t c = 0; c < x.size(); ++c)
      out[r] += x[c] * (columns_first ? m[c * out.size() + r] : m[r * x.size() + c]);
  return out;
}
Vector plus(Vector a, const auto& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}
Vector softmax_of(Vector x) {
  double largest = x[0], sum = 0;
  for (double v : x) largest = std::max(largest, v);
  for (double& v : x) sum += v = std::exp(v - largest);
  for (double& v : x) v /= sum;
  return x;
}

// Causal attention of the last query to all keys; each head of keys serves heads / kv_heads of queries.
Vector attended(const Vector& q, const std::vector<Vector>& k, const std::vector<Vector>& v, int64_t heads,
                int64_t kv_heads) {
  const size_t size = q.size() / size_t(heads), shared = size_t(heads / kv_heads);
  Vector out(q.size(), 0);
  for (size_t h = 0; h < size_t(heads); ++h) {
    Vector scores;
    for (const Vector& key : k) {
      double s = 0;
      for (size_t d = 0; d < size; ++d) s += q[h * size + d] * key[h / shared * size + d];
      scores.push_back(s / std::sqrt(double(size)));
    }
    scores = softmax_of(scores);
    for (size_t t = 0; t < k.size(); ++t)
      for (size_t d = 0; d < size; ++d) out[h * size + d] += scores[t] * v[t][h / shared * size + d];
  }
  return out;
}

void expect_logits(const Array& got, const std::vector<Vector>& expected) {
  size_t i = 0;
  for (const Vector& row : expected)
    for (double value : row) EXPECT_NEAR(got.at(int64_t(i++)), value, 1e-4 * (1 + std::abs(value))) << i - 1;
  EXPECT_EQ(got.size(), int64_t(i));
}

Tensor ids_of(const Ids& ids) { return tensor(Array({.batch = {1, int64_t(ids.size())}}, ids)); }

const Ids kIds = {3, 1, 4, 1, 5, 2};

// --- Llama ---

struct LlamaSizes {
  int32_t dim = 16, hidden = 24, layers = 2, heads = 4, kv_heads = 2, vocab = 12, ctx = 8;
};
struct LlamaWeights {
  explicit LlamaWeights(const LlamaSizes& s)
      : table(weights("table", s.vocab * s.dim)),
        final(weights("final", s.dim, 1)),
        head(weights("head", s.vocab * s.dim)) {
    const int64_t keys = s.dim / s.heads * s.kv_heads;
    for (int i = 0; i < s.layers; ++i) {
      auto add = [&](const char* name, int64_t count, double around = 0) {
        blocks[name].push_back(weights(name + std::to_string(i), count, around));
      };
      add("norm1", s.dim, 1), add("norm2", s.dim, 1);
      add("q", s.dim * s.dim), add("k", keys * s.dim), add("v", keys * s.dim), add("o", s.dim * s.dim);
      add("gate", s.hidden * s.dim), add("down", s.dim * s.hidden), add("up", s.hidden * s.dim);
    }
  }
  Matrix table, final, head;
  std::map<std::string, std::vector<Matrix>> blocks;
};

std::string bytes_of(const auto& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]);
}
std::string header(const LlamaSizes& s, bool negative_vocab) {
  const std::vector<int32_t> sizes = {
      s.dim, s.hidden, s.layers, s.heads, s.kv_heads, negative_vocab ? -s.vocab : s.vocab, s.ctx};
  return bytes_of(sizes);
}
std::string first_format(const LlamaSizes& s, const LlamaWeights& w, bool tied) {
  std::string out = header(s, !tied) + bytes_of(w.table);
  for (const char* name : {"norm1", "q", "k", "v", "o", "norm2", "gate", "down", "up"})
    for (const Matrix& m : w.blocks.at(name)) out += bytes_of(m);
  out += bytes_of(w.final) + std::string(size_t(s.ctx * (s.dim / s.heads)) * sizeof(float), '\0');
  return tied ? out : out + bytes_of(w.head);
}
// Version 1, or version 2 with groups; then the weights become what the bytes say.
std::string later_format(const LlamaSizes& s, LlamaWeights& w, bool tied, int32_t group) {
  const std::vector<uint32_t> magic = {0x616b3432, group ? 2u : 1u};
  std::string out = bytes_of(magic) + header(s, false) + std::string(1, char(tied));
  if (group) out += bytes_of(std::vector<int32_t>{group});
  out.resize(256, '\0');
  for (const char* name : {"norm1", "norm2"})
    for (const Matrix& m : w.blocks.at(name)) out += bytes_of(m);
  out += bytes_of(w.final);
  auto add = [&](Matrix& m) {
    if (!group) {
      out += bytes_of(m);
      return;
    }
    std::string numbers;
    Matrix factors;
    for (size_t i = 0; i < m.size(); ++i) {
      if (i % size_t(group) == 0) {
        float largest = 0;
        for (size_t k = i; k < i + size_t(group); ++k) largest = std::max(largest, std::abs(m[k]));
        factors.push_back(largest / 127);
      }
      const int8_t number = int8_t(std::lround(m[i] / factors.back()));
      numbers += char(number), m[i] = number * factors.back();
    }
    out += numbers + bytes_of(factors);
  };
  add(w.table);
  for (const char* name : {"q", "k", "v", "o", "gate", "down", "up"})
    for (Matrix& m : w.blocks.at(name)) add(m);
  if (!tied) add(w.head);
  return out;
}

std::vector<Vector> llama_logits(const LlamaSizes& s, const LlamaWeights& w, bool tied) {
  auto normed = [](const Vector& x, const Matrix& by) {
    double square = 0;
    for (double v : x) square += v * v;
    Vector out = x;
    for (size_t i = 0; i < x.size(); ++i) out[i] *= by[i] / std::sqrt(square / double(x.size()) + 1e-5);
    return out;
  };
  const size_t head = size_t(s.dim / s.heads);
  auto turned = [&](Vector x, size_t t) {
    for (size_t i = 0; i < x.size(); i += 2) {
      const double angle = double(t) / std::pow(10000, double(i % head) / double(head));
      const double a = x[i], b = x[i + 1];
      x[i] = a * std::cos(angle) - b * std::sin(angle), x[i + 1] = a * std::sin(angle) + b * std::cos(angle);
    }
    return x;
  };
  std::vector<std::vector<Vector>> keys(size_t(s.layers)), values(size_t(s.layers));
  std::vector<Vector> out;
  for (size_t t = 0; t < kIds.size(); ++t) {
    const auto* row = &w.table[size_t(kIds[t] * s.dim)];
    Vector x(row, row + s.dim);
    for (size_t i = 0; i < size_t(s.layers); ++i) {
      auto of = [&](const char* name) -> const Matrix& { return w.blocks.at(name)[i]; };
      Vector n = normed(x, of("norm1"));
      const int64_t kv = int64_t(head) * s.kv_heads;
      keys[i].push_back(turned(times(of("k"), n, kv), t)), values[i].push_back(times(of("v"), n, kv));
      x = plus(x, times(of("o"), attended(turned(times(of("q"), n, s.dim), t), keys[i], values[i], s.heads, s.kv_heads),
                        s.dim));
      n = normed(x, of("norm2"));
      Vector gate = times(of("gate"), n, s.hidden), up = times(of("up"), n, s.hidden);
      for (size_t k = 0; k < gate.size(); ++k) gate[k] *= up[k] / (1 + std::exp(-gate[k]));
      x = plus(x, times(of("down"), gate, s.dim));
    }
    out.push_back(times(tied ? w.table : w.head, normed(x, w.final), s.vocab));
  }
  return out;
}

Array logits_of(const Llama2c& file) {
  Context ctx({.threads = 1, .compiler_flags = {"-O0"}});
  load_checkpoint(file.weights, "test", ctx);
  return ctx.eval(nn::Llama(file.options)(ids_of(kIds)));
}

TEST(Llama, EveryFormatGivesTheLogitsOfTheFormulas) {
  const LlamaSizes s;
  for (bool tied : {true, false}) {
    SCOPED_TRACE(tied);
    LlamaWeights w(s);
    expect_logits(logits_of(parse_llama2c(first_format(s, w, tied), "first")), llama_logits(s, w, tied));
    const std::string plain = later_format(s, w, tied, 0), packed = later_format(s, w, tied, 8);
    expect_logits(logits_of(parse_llama2c(packed, "packed")), llama_logits(s, w, tied));  // w is what the bytes say now
    LlamaWeights again(s);
    expect_logits(logits_of(parse_llama2c(plain, "plain")), llama_logits(s, again, tied));
  }
}

TEST(Llama, RefusesWhatIsNoModel) {
  const LlamaSizes s;
  LlamaWeights w(s);
  const std::string whole = first_format(s, w, true), later = later_format(s, w, true, 8);
  for (const std::string& content :
       {std::string(), whole.substr(0, 20), whole.substr(0, whole.size() - 1), whole + "x", later.substr(0, 200),
        later.substr(0, later.size() - 3), std::string(500, '\xff'), std::string(500, '\0')})
    expect_refusal<ConfigError>([&] { parse_llama2c(content, "some.bin"); }, {"some.bin is no model of llama2.c: "});
  std::string version = later;
  version[4] = 7;
  expect_refusal<ConfigError>([&] { parse_llama2c(version, "f"); }, {"its version is 7"});
  LlamaSizes odd = s;
  odd.kv_heads = 3;
  expect_refusal<ConfigError>([&] { parse_llama2c(header(odd, false) + std::string(100000, 'x'), "f"); },
                              {"16 channels, 4 heads and 3 heads of keys"});
}

TEST(Llama, WritesFluentEnglish) {
  const auto model = test_data("tinyllama/stories260K.bin"), words = test_data("tinyllama/tok512.bin");
  if (!model || !words) GTEST_SKIP() << "tinyllama is not in the folder that CARAVAN_TEST_DATA names";
  const Llama2c file = read_llama2c(*model);
  const data::Tokenizer tokenizer = data::read_llama_tokenizer(*words);
  const nn::Llama llama(file.options);
  Ids prompt = tokenizer.encode("Once upon a time");
  prompt.insert(prompt.begin(), *tokenizer.start());
  auto written = [&](const std::string& device, bool cache, int64_t tokens) {
    Context ctx({.device = device, .threads = 1});
    load_checkpoint(file.weights, *model, ctx);
    Ids all = prompt;
    const Ids more = Generator(ctx, llama, {.capacity = file.options.ctx, .cache = cache})(
        prompt, {.tokens = tokens, .sampling = {.temperature = 0}});
    all.insert(all.end(), more.begin(), more.end());
    return tokenizer.decode(all);
  };
  const std::string text = written("cpu", true, 60);
  // What llama2.c itself writes.
  EXPECT_TRUE(
      text.starts_with("Once upon a time, there was a little girl named Lily. She loved to play outside in the "
                       "park. One day, she saw a big, red ball."))
      << text;
  EXPECT_EQ(written("cpu", false, 60), text);
  EXPECT_TRUE(text.starts_with(written("interp", true, 4)));
}

// --- GPT-2 ---

constexpr int64_t kDim = 8, kHeads = 2, kLayers = 2, kVocab = 10, kContext = 8;
const char* kConfig =
    R"({"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 2, "n_positions": 8, "vocab_size": 10})";

data::Tensors gpt2_file() {
  data::Tensors out;
  auto add = [&](const std::string& name, std::vector<int64_t> sizes, double around = 0) {
    int64_t count = 1;
    for (int64_t size : sizes) count *= size;
    out.list[name] = data::stored(Array({.output = Row(sizes.begin(), sizes.end())}, weights(name, count, around)));
  };
  add("wte.weight", {kVocab, kDim}), add("wpe.weight", {kContext, kDim});
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string h = "h." + std::to_string(i);
    add(h + ".ln_1.weight", {kDim}, 1), add(h + ".ln_1.bias", {kDim});
    add(h + ".ln_2.weight", {kDim}, 1), add(h + ".ln_2.bias", {kDim});
    add(h + ".attn.c_attn.weight", {kDim, 3 * kDim}), add(h + ".attn.c_attn.bias", {3 * kDim});
    add(h + ".attn.c_proj.weight", {kDim, kDim}), add(h + ".attn.c_proj.bias", {kDim});
    add(h + ".mlp.c_fc.weight", {kDim, 4 * kDim}), add(h + ".mlp.c_fc.bias", {4 * kDim});
    add(h + ".mlp.c_proj.weight", {4 * kDim, kDim}), add(h + ".mlp.c_proj.bias", {kDim});
    add(h + ".attn.bias", {1, 1, 4, 4});
  }
  add("ln_f.weight", {kDim}, 1), add("ln_f.bias", {kDim});
  return out;
}

std::vector<Vector> gpt2_logits(const data::Tensors& file) {
  std::map<std::string, Matrix> w;
  for (const auto& [name, tensor] : file.list) {
    const Array array = file.array(name);
    for (int64_t i = 0; i < array.size(); ++i) w[name].push_back(float(array.at(i)));
  }
  auto normed = [&](const Vector& x, const std::string& name) {
    double mean = 0, variance = 0;
    for (double v : x) mean += v / double(x.size());
    for (double v : x) variance += (v - mean) * (v - mean) / double(x.size());
    Vector out = x;
    for (size_t i = 0; i < x.size(); ++i)
      out[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * w[name + ".weight"][i] + w[name + ".bias"][i];
    return out;
  };
  auto linear = [&](const Vector& x, const std::string& name) {
    const Matrix& bias = w[name + ".bias"];
    return plus(times(w[name + ".weight"], x, int64_t(bias.size()), true), bias);
  };
  std::vector<std::vector<Vector>> keys(kLayers), values(kLayers);
  std::vector<Vector> out;
  for (size_t t = 0; t < kIds.size(); ++t) {
    Vector x;
    for (int64_t d = 0; d < kDim; ++d)
      x.push_back(w["wte.weight"][size_t(kIds[t] * kDim + d)] + w["wpe.weight"][size_t(int64_t(t) * kDim + d)]);
    for (size_t i = 0; i < size_t(kLayers); ++i) {
      const std::string h = "h." + std::to_string(i);
      const Vector all = linear(normed(x, h + ".ln_1"), h + ".attn.c_attn");
      auto third = [&](int n) { return Vector(all.begin() + n * kDim, all.begin() + (n + 1) * kDim); };
      keys[i].push_back(third(1)), values[i].push_back(third(2));
      x = plus(x, linear(attended(third(0), keys[i], values[i], kHeads, kHeads), h + ".attn.c_proj"));
      Vector wide = linear(normed(x, h + ".ln_2"), h + ".mlp.c_fc");
      for (double& v : wide) v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      x = plus(x, linear(wide, h + ".mlp.c_proj"));
    }
    out.push_back(times(w["wte.weight"], normed(x, "ln_f"), kVocab));
  }
  return out;
}

TEST(Gpt2, AFolderGivesTheLogitsOfTheFormulas) {
  TemporaryFolder folder;
  const data::Tensors file = gpt2_file();
  data::write_file(folder.path + "/config.json", kConfig);
  for (const std::string prefix : {"", "transformer."}) {
    data::Tensors named;
    for (const auto& [name, tensor] : file.list) named.list.emplace(prefix + name, tensor);
    data::write_safetensors(folder.path + "/model.safetensors", named);
    const Gpt2 model = read_gpt2(folder.path);
    Context ctx({.threads = 1, .compiler_flags = {"-O0"}});
    load_checkpoint(model.weights, folder.path, ctx);
    expect_logits(ctx.eval(nn::Gpt(model.options)(ids_of(kIds))), gpt2_logits(file));
  }
}

TEST(Gpt2, NarrowWeightsAreReadIntoF32) {
  data::Tensors file = gpt2_file();
  for (auto& [name, tensor] : file.list) {
    const Array array = file.array(name);
    tensor = data::stored(Array(array.shape(), array.as<float>(), DType::bf16));
  }
  const data::Tensors ours = renamed(file, gpt2_names(gpt2_options(kConfig, "config")), "file");
  Context ctx({.threads = 1, .compiler_flags = {"-O0"}});
  load_checkpoint(ours, "file", ctx);
  expect_logits(ctx.eval(nn::Gpt(gpt2_options(kConfig, "config"))(ids_of(kIds))), gpt2_logits(file));
}

TEST(Gpt2, KnowsItsFourSizes) {
  struct Size {
    int64_t dim, layers, heads, parameters;
  };
  for (const Size& size : {Size{768, 12, 12, 124439808}, Size{1024, 24, 16, 354823168}, Size{1280, 36, 20, 774030080},
                           Size{1600, 48, 25, 1557611200}}) {
    const std::string config = R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
      "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_positions": 1024, "vocab_size": 50257,
      "n_embd": )" + std::to_string(size.dim) +
                               R"(, "n_head": )" + std::to_string(size.heads) + R"(, "n_layer": )" +
                               std::to_string(size.layers) + "}";
    const nn::GptOptions options = gpt2_options(config, "config.json");
    EXPECT_EQ(options.ctx, 1024);
    EXPECT_EQ(options.vocab, 50257);
    const Tensor logits = nn::Gpt(options)(ids_of(kIds));
    int64_t count = 0;
    const Program program = observe(logits);
    for (const ir::Buffer& buffer : to_ir(program, Inference(program)).buffers)
      if (std::holds_alternative<ir::StateLeaf>(buffer.kind)) count += buffer.shape.elements();
    EXPECT_EQ(count, size.parameters) << size.dim;
  }
}

TEST(NameMap, ReportsEverythingThatDoesNotFit) {
  data::Tensors file = gpt2_file();
  file.list.erase("h.1.ln_2.bias"), file.list.erase("ln_f.weight");
  file.list["extra"] = file.list["wte.weight"], file.list["other"] = file.list["wte.weight"];
  expect_refusal<ConfigError>([&] { renamed(file, gpt2_names(gpt2_options(kConfig, "config")), "m.safetensors"); },
                              {"m.safetensors", "Missing: h.1.ln_2.bias, ln_f.weight.", "Unknown: extra, other."});
  data::Tensors wrong = gpt2_file();
  wrong.list["wte.weight"] = data::stored(Array({.output = {7}}, std::vector<float>(7)));
  expect_refusal<ConfigError>([&] { renamed(wrong, gpt2_names(gpt2_options(kConfig, "config")), "m"); },
                              {"`wte.weight` has the sizes [7]; the model has `tok.weight` as"});
  wrong = gpt2_file();
  wrong.list["h.0.mlp.c_fc.weight"].sizes = {kDim * 4 * kDim};
  expect_refusal<ConfigError>([&] { renamed(wrong, gpt2_names(gpt2_options(kConfig, "config")), "m"); },
                              {"`h.0.mlp.c_fc.weight` [256] should be a matrix"});
  // As many elements, but other axes: a linear map as PyTorch's nn.Linear keeps it, and positions of another model.
  wrong = gpt2_file();
  wrong.list["h.0.attn.c_attn.weight"].sizes = {3 * kDim, kDim};
  expect_refusal<ConfigError>(
      [&] { renamed(wrong, gpt2_names(gpt2_options(kConfig, "config")), "m"); },
      {"`h.0.attn.c_attn.weight`, transposed, has the sizes [8, 24]; the model has `blocks.0.attn.qkv.weight` as "
       "[6, 4, 8]"});
  wrong = gpt2_file();
  wrong.list["wpe.weight"].sizes = {4, 16};
  expect_refusal<ConfigError>([&] { renamed(wrong, gpt2_names(gpt2_options(kConfig, "config")), "m"); },
                              {"`wpe.weight` has the sizes [4, 16]"});
  expect_refusal<ConfigError>([] { gpt2_options("{", "config.json"); }, {"config.json"});
  expect_refusal<ConfigError>([] { gpt2_options(R"({"n_embd": -1})", "config.json"); }, {"config.json: `vocab_size`"});
  expect_refusal<ConfigError>([] { gpt2_options(R"({"model_type": "bert"})", "c"); }, {"bert", "not gpt2"});
  const std::string config = kConfig, sizes = config.substr(0, config.size() - 1);
  expect_refusal<ConfigError>([&] { gpt2_options(sizes + R"(, "activation_function": "relu"})", "c"); },
                              {"c: the activation_function is `\"relu\"`", "`\"gelu_new\"`"});
  expect_refusal<ConfigError>([&] { gpt2_options(sizes + R"(, "layer_norm_epsilon": 1e-6})", "c"); },
                              {"the layer_norm_epsilon is `1e-06`", "`1e-05`"});
}

TEST(NameMap, JoinsSplitsAndTransposes) {
  data::Tensors file;
  auto add = [&](const char* name, Row axes, std::vector<float> values) {
    file.list[name] = data::stored(Array({.output = std::move(axes)}, values));
  };
  add("q", {1, 2}, {1, 2}), add("k", {2, 2}, {3, 4, 5, 6}), add("halves", {4}, {1, 2, 3, 4});
  const data::Tensors ours = renamed(file,
                                     {{{.ours = "qk", .theirs = {"q", "k"}, .transposed = true},
                                       {.ours = "second", .theirs = {"halves"}, .part = 1, .parts = 2}}},
                                     "file");
  EXPECT_EQ(ours.array("qk").values(), (Vector{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(ours.array("second").values(), (Vector{3, 4}));
}

}  // namespace
}  // namespace caravan::pretrained
