#include "caravan/pretrained/llama.h"

#include <cstring>
#include <vector>

#include "caravan/base/error.h"
#include "caravan/data/atomic_file.h"
#include "caravan/data/element_count.h"

namespace caravan::pretrained {

namespace {

constexpr uint32_t kMagic = 0x616b3432;  // of versions 1 and 2
constexpr size_t kHeaderBytes = 256;     // of the same
constexpr int64_t kLargestLlamaSize = 1 << 24;

// Bytes of a file in order, which may end too soon.
class Reader {
 public:
  Reader(std::string_view content, std::string file) : rest_(content), size_(content.size()), file_(std::move(file)) {}

  template <class T>
  T number() {
    T out;
    std::memcpy(&out, take(sizeof out).data(), sizeof out);
    return out;
  }
  std::string_view take(size_t bytes) {
    if (bytes > rest_.size()) refuse("it has " + std::to_string(size_) + " bytes, fewer than its sizes need.");
    const std::string_view out = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return out;
  }
  size_t taken() const { return size_ - rest_.size(); }
  size_t left() const { return rest_.size(); }
  [[noreturn]] void refuse(const std::string& problem) const {
    throw ConfigError(file_ + " is no model of llama2.c: " + problem);
  }

 private:
  std::string_view rest_;
  size_t size_;
  std::string file_;
};

// The weights of one kind, of one block or of all: [rows, columns], or [rows] without columns.
std::vector<float> floats(Reader& reader, int64_t count) {
  const std::string_view bytes = reader.take(size_t(count) * sizeof(float));  // before there is memory for them
  std::vector<float> out(size_t(count), 0.f);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}
std::vector<float> of_bytes(Reader& reader, int64_t count, int64_t group) {
  if (count % group != 0) reader.refuse("its groups of " + std::to_string(group) + " do not divide a matrix.");
  const std::string_view bytes = reader.take(size_t(count));
  const std::vector<float> factors = floats(reader, count / group);
  std::vector<float> out(size_t(count), 0.f);
  for (size_t i = 0; i < out.size(); ++i) out[i] = float(int8_t(bytes[i])) * factors[i / size_t(group)];
  return out;
}

class Model {
 public:
  Model(std::string_view content, const std::string& file) : reader_(content, file) {}

  Llama2c run() {
    read_header();
    const int64_t dim = o().dim, layers = o().layers, wide = o().hidden, vocab = o().vocab;
    const int64_t keys = dim / o().heads * o().kv_heads;
    // In the order of the file; norms come first in the later versions.
    if (version_ == 0) table(vocab, dim);
    norms(".ln1.weight");
    if (version_ > 0) norms(".ln2.weight"), norm("ln.weight");
    if (version_ > 0) table(vocab, dim);
    std::vector<std::vector<float>> queries = matrices(dim * dim), ks = matrices(keys * dim), vs = matrices(keys * dim);
    for (size_t i = 0; i < size_t(layers); ++i) {
      queries[i].insert(queries[i].end(), ks[i].begin(), ks[i].end());
      queries[i].insert(queries[i].end(), vs[i].begin(), vs[i].end());
      add(block(i) + ".attn.qkv.weight", {o().heads + 2 * o().kv_heads, dim / o().heads, dim}, queries[i]);
    }
    each(".attn.proj.weight", {dim, o().heads, dim / o().heads});
    if (version_ == 0) norms(".ln2.weight");
    each(".mlp.gate.weight", {wide, dim});
    each(".mlp.down.weight", {dim, wide});
    each(".mlp.up.weight", {wide, dim});
    if (version_ == 0) norm("ln.weight"), reader_.take(size_t(o().ctx * (dim / o().heads)) * sizeof(float));
    if (!o().tied) add("head.weight", {vocab, dim}, matrix(vocab * dim));
    if (reader_.left() > 0)
      reader_.refuse("it has " + std::to_string(reader_.left()) + " bytes more than its sizes need.");
    return std::move(out_);
  }

 private:
  const nn::LlamaOptions& o() const { return out_.options; }
  static std::string block(size_t i) { return "blocks." + std::to_string(i); }

  void read_header() {
    const uint32_t first = reader_.number<uint32_t>();
    int32_t sizes[7] = {int32_t(first)};
    size_t read = 1;
    if (first == kMagic) {
      version_ = reader_.number<int32_t>(), read = 0;
      if (version_ != 1 && version_ != 2)
        reader_.refuse("its version is " + std::to_string(version_) + ", not 1 or 2.");
    }
    for (; read < 7; ++read) sizes[read] = reader_.number<int32_t>();
    nn::LlamaOptions& options = out_.options;
    options.tied = sizes[5] > 0;  // the first format says by the sign that it has a head of its own
    if (version_ > 0) options.tied = reader_.number<uint8_t>() != 0;
    if (version_ == 2) group_ = reader_.number<int32_t>();
    if (version_ > 0) reader_.take(kHeaderBytes - reader_.taken());
    const char* names[7] = {"channels",      "hidden channels",     "blocks",   "heads",
                            "heads of keys", "ids of a vocabulary", "positions"};
    for (int k = 0; k < 7; ++k) {
      const int64_t size = k == 5 ? std::abs(int64_t(sizes[k])) : sizes[k];
      if (size < 1 || size > kLargestLlamaSize)
        reader_.refuse("the number of its " + std::string(names[k]) + " would be " + std::to_string(sizes[k]) + ".");
    }
    options.dim = sizes[0], options.hidden = sizes[1], options.layers = sizes[2], options.heads = sizes[3];
    options.kv_heads = sizes[4], options.vocab = std::abs(int64_t(sizes[5])), options.ctx = sizes[6];
    if (options.dim % options.heads != 0 || options.heads % options.kv_heads != 0 ||
        options.dim / options.heads % 2 != 0)
      reader_.refuse("its " + std::to_string(options.dim) + " channels, " + std::to_string(options.heads) +
                     " heads and " + std::to_string(options.kv_heads) + " heads of keys do not divide.");
    if (version_ == 2 && group_ < 1) reader_.refuse("its groups would have " + std::to_string(group_) + " numbers.");
    const int64_t weights_of_a_block = options.dim * (2 * options.dim + 3 * options.hidden);
    if (weights_of_a_block > int64_t(reader_.left()) / options.layers)  // each has at least one byte
      reader_.refuse("it has " + std::to_string(reader_.taken() + reader_.left()) +
                     " bytes, fewer than its sizes need.");
  }

  std::vector<float> matrix(int64_t count) {
    return version_ == 2 ? of_bytes(reader_, count, group_) : floats(reader_, count);
  }
  std::vector<std::vector<float>> matrices(int64_t count) {
    std::vector<std::vector<float>> out;
    for (int64_t i = 0; i < o().layers; ++i) out.push_back(matrix(count));
    return out;
  }
  void each(const char* name, const std::vector<int64_t>& sizes) {
    for (size_t i = 0; i < size_t(o().layers); ++i) add(block(i) + name, sizes, matrix(*data::element_count(sizes)));
  }
  void norm(const std::string& name) { add(name, {o().dim}, floats(reader_, o().dim)); }
  void norms(const char* name) {
    for (size_t i = 0; i < size_t(o().layers); ++i) norm(block(i) + name);
  }
  void table(int64_t rows, int64_t columns) { add("tok.weight", {rows, columns}, matrix(rows * columns)); }
  void add(const std::string& name, const std::vector<int64_t>& sizes, const std::vector<float>& values) {
    data::StoredTensor tensor{data::StoredType::f32, sizes, std::vector<std::byte>(values.size() * sizeof(float))};
    std::memcpy(tensor.elements.data(), values.data(), tensor.elements.size());
    out_.weights.list.emplace(name, std::move(tensor));
  }

  Reader reader_;
  int32_t version_ = 0, group_ = 0;
  Llama2c out_;
};

}  // namespace

Llama2c parse_llama2c(std::string_view content, const std::string& file) { return Model(content, file).run(); }
Llama2c read_llama2c(const std::string& path) {
  return data::naming_memory(path, [&] { return parse_llama2c(data::read_file(path), path); });
}

}  // namespace caravan::pretrained
