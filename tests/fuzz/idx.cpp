// IDX files, packed or not: what is read is written and read again as the same.
#include "caravan/data/idx.h"

#include "caravan/base/error.h"
#include "caravan/data/gzip.h"
#include "fuzz.h"

using namespace caravan;
using namespace caravan::data;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) try {
  const Array array = parse_idx(text_of(data, size), "fuzz.idx");
  const std::string again = idx_content(array);
  must(idx_content(parse_idx(again, "again.idx")) == again);
  return 0;
} catch (const ConfigError&) {
  return 0;
}

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  for (const DType dtype : {DType::u8, DType::i32, DType::f32, DType::f64}) {
    out.push_back(idx_content(Array(parse_shape("2|3,2"), dtype)));
    out.push_back(gzip(idx_content(Array(parse_shape("5|"), dtype))));
  }
  out.push_back(std::string("\0\0\x09\1\0\0\0\2\1\2", 10));  // i8
  out.push_back(std::string("\0\0\x0b\1\0\0\0\1\1\2", 10));  // i16
  return out;
}
