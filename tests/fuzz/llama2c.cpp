// Models of llama2.c: the weights that are read have the sizes that the file gives.
#include <cstring>

#include "caravan/base/error.h"
#include "caravan/pretrained/llama.h"
#include "fuzz.h"

using namespace caravan;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) try {
  const pretrained::Llama2c model = pretrained::parse_llama2c(text_of(data, size), "model.bin");
  const data::StoredTensor* table = model.weights.find("tok.weight");
  must(table && table->sizes == std::vector<int64_t>{model.options.vocab, model.options.dim});
  must(int64_t(table->elements.size()) == 4 * model.options.dim * model.options.vocab);
  must((model.weights.find("head.weight") == nullptr) == model.options.tied);
  return 0;
} catch (const ConfigError&) {
  return 0;
}

namespace {

template <class Number>
void add(std::string& out, std::initializer_list<Number> values) {
  for (const Number value : values) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out.append(bytes, sizeof value);
  }
}
// Of 4 channels, 6 hidden ones, 1 block, 2 heads, 1 head of keys, 5 ids and 3 positions.
constexpr size_t kTable = 5 * 4, kNorms = 3 * 4, kBlock = 2 * 4 * 4 + 2 * 2 * 4 + 3 * 6 * 4, kAngles = 3 * 2;

std::string header(int32_t vocab) {
  std::string out;
  add<int32_t>(out, {4, 6, 1, 2, 1, vocab, 3});
  return out;
}
std::string later(uint32_t version, bool tied) {
  std::string out;
  add<uint32_t>(out, {0x616b3432, version});
  out += header(5) + char(tied);
  if (version == 2) add<int32_t>(out, {4});
  out.resize(256, '\0');
  const size_t weights = kTable + kBlock + (tied ? 0 : kTable);
  // Version 2 has a byte for each weight, and a float for each four of them.
  return out + std::string(4 * kNorms + (version == 2 ? 2 : 4) * weights, '\1');
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string weights(4 * (kTable + kNorms + kBlock + kAngles), '\1'), head(4 * kTable, '\1');
  return {header(5) + weights, header(-5) + weights + head, later(1, true), later(1, false), later(2, true),
          later(2, false)};
}
