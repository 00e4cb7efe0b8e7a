// tokenizer.bin of llama2.c: what is read gives back every text that it encodes.
#include <cstdio>
#include <cstring>

#include "caravan/base/error.h"
#include "caravan/data/tokenizer.h"
#include "fuzz.h"

using namespace caravan;
using namespace caravan::data;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) try {
  const std::string_view content = text_of(data, size);
  const Tokenizer tokenizer = parse_llama_tokenizer(content, "tokenizer.bin");
  must(tokenizer.decode(tokenizer.encode(content)) == content);
  must(parse_tokenizer(tokenizer.text(), "again").text() == tokenizer.text());
  return 0;
} catch (const ConfigError&) {
  return 0;
}

namespace {

template <class Number>
void add(std::string& out, Number value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}
void add_piece(std::string& out, const std::string& piece, float score) {
  add(out, score);
  add(out, int32_t(piece.size()));
  out += piece;
}

}  // namespace

std::vector<std::string> seeds() {
  std::string out;
  add(out, int32_t(7));
  for (const char* piece : {"<unk>", "<s>", "</s>"}) add_piece(out, piece, 0);
  for (unsigned byte = 0; byte < 256; ++byte) {
    char piece[8];
    std::snprintf(piece, sizeof piece, "<0x%02X>", byte);
    add_piece(out, piece, 0);
  }
  const std::string bytes_alone = out;
  for (const char* piece : {" ", "a", "b", "ab", " ab", "\u00e9", "aba"}) add_piece(out, piece, -float(out.size()));
  return {out, bytes_alone, out.substr(0, 100)};
}
