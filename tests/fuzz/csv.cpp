// Tables, with and without names, in two precisions.
#include "caravan/data/csv.h"

#include "caravan/base/error.h"
#include "fuzz.h"

using namespace caravan;
using namespace caravan::data;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const bool header : {false, true})
    for (const DType dtype : {DType::f64, DType::u8}) try {
        const Table table = parse_csv(text_of(data, size), "fuzz.csv", {.header = header, .dtype = dtype});
        must(table.values.shape().rank() == 2);
        must(!header || int64_t(table.names.size()) == table.values.shape().output[0].size);
      } catch (const ConfigError&) {
      }
  return 0;
}

std::vector<std::string> seeds() {
  return {"1,2\n3,4\n", "a,\"b \"\"c\"\"\"\r\n1.5,-2e3\r\n", "\xef\xbb\xbf\"1\", +2 \n\"3\",nan", "x\n1\n2\n3\n", ""};
}
