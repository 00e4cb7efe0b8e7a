// safetensors files: what is read is written and read again as the same.
#include "caravan/data/safetensors.h"

#include "caravan/base/error.h"
#include "fuzz.h"

using namespace caravan;
using namespace caravan::data;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) try {
  const Tensors tensors = parse_safetensors(text_of(data, size), "fuzz.safetensors");
  const std::string again = safetensors_content(tensors);
  must(safetensors_content(parse_safetensors(again, "again.safetensors")) == again);
  return 0;
} catch (const ConfigError&) {
  return 0;
}

std::vector<std::string> seeds() {
  Tensors all;
  for (const DType dtype : {DType::boolean, DType::u8, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32})
    all.list[std::string(name(dtype))] = stored(Array(parse_shape("2|3"), dtype));
  all.metadata = {{"note", "quoted \" and \\ and é"}};
  Tensors one;
  one.list["a"] = stored(Array::scalar(1));
  return {safetensors_content(all), safetensors_content(one), safetensors_content({})};
}
