// Tokenizers as the text that a checkpoint keeps: what is read gives the same text again, and gives back every text
// that it encodes.
#include "caravan/data/tokenizer.h"

#include "caravan/base/error.h"
#include "fuzz.h"

using namespace caravan;
using namespace caravan::data;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) try {
  const Tokenizer tokenizer = parse_tokenizer(text_of(data, size), "fuzz.safetensors");
  must(parse_tokenizer(tokenizer.text(), "again.safetensors").text() == tokenizer.text());
  const std::string_view text = text_of(data, size < 1000 ? size : 1000);
  must(tokenizer.decode(tokenizer.encode(text)) == text);
  return 0;
} catch (const ConfigError&) {
  return 0;
}

std::vector<std::string> seeds() {
  return {characters("hello").text(), characters("b\xff\u00e9", {.boundary = "."}).text(),
          R"({"tokenizer":"gpt2","pieces":["a","b","ab"],"merges":["a b"]})",
          R"({"tokenizer":"llama","pieces":["<unk>","<s>","</s>"],"scores":[0,-1.5,1e9]})"};
}
