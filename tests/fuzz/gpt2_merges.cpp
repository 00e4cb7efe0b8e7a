// The file of GPT-2's merges, beside a vocabulary that is as it should be.
#include <cstdio>

#include "caravan/base/error.h"
#include "caravan/data/tokenizer.h"
#include "fuzz.h"

using namespace caravan;
using namespace caravan::data;

namespace {

// Bytes as GPT-2 writes them, then `ab`, `abc` and `<|endoftext|>`.
std::string vocabulary() {
  std::string out = "{";
  int id = 0, other = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool kept = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    char piece[32];
    std::snprintf(piece, sizeof piece, "\"\\u%04x\":%d,", unsigned(kept ? byte : other++), id++);
    out += piece;
  }
  return out + R"("ab":256,"abc":257,"<|endoftext|>":258})";
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) try {
  static const TextFile kVocabulary{"encoder.json", vocabulary()};
  const std::string text(text_of(data, size));
  const Tokenizer tokenizer = parse_gpt2_tokenizer(kVocabulary, {"vocab.bpe", text});
  must(tokenizer.decode(tokenizer.encode(text)) == text);
  must(tokenizer.encode("ab").size() == 1);
  return 0;
} catch (const ConfigError&) {
  return 0;
}

std::vector<std::string> seeds() { return {"#version: 0.2\na b\nab c\n", "a b\r\nab c", "a b\n\nab c\n\n"}; }
