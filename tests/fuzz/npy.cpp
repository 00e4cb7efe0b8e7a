// NumPy's files, one array or many: what is read is written and read again as the same.
#include "caravan/data/npy.h"

#include "caravan/base/error.h"
#include "fuzz.h"

using namespace caravan;
using namespace caravan::data;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) try {
  const std::string_view content = text_of(data, size);
  if (content.starts_with("PK")) {
    const NamedArrays arrays = parse_npz(content, "fuzz.npz");
    const std::string again = npz_content(arrays, Packing::deflated);
    must(npz_content(parse_npz(again, "again.npz"), Packing::deflated) == again);
  } else {
    const std::string again = npy_content(parse_npy(content, "fuzz.npy"));
    must(npy_content(parse_npy(again, "again.npy")) == again);
  }
  return 0;
} catch (const ConfigError&) {
  return 0;
}

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  NamedArrays all;
  for (const DType dtype : {DType::boolean, DType::u8, DType::i32, DType::i64, DType::f16, DType::f32, DType::f64}) {
    const Array array(parse_shape("2,3"), dtype);
    out.push_back(npy_content(array));
    all[std::string(name(dtype))] = array;
  }
  for (const char* descr : {">i2", "<u2", "|i1", ">u4", "<u8", ">f8"}) {
    std::string fortran = npy_content(Array(parse_shape("2,1"), DType::i64));
    fortran.replace(fortran.find("<i8"), 3, descr);
    fortran.replace(fortran.find("False"), 5, "True ");
    const size_t elements = 2 * size_t(descr[2] - '0');
    out.push_back(fortran.substr(0, fortran.size() - 16 + elements));
  }
  out.push_back(npz_content(all));
  out.push_back(npz_content({{"a", all.at("u8")}, {"b", all.at("f32")}}, Packing::deflated));
  return out;
}
