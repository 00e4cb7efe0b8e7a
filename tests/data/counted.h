// What the tests of data sets share.
#pragma once

#include <caravan/caravan.h>

#include <algorithm>

namespace caravan::data {

// 0, 1, 2, ...
inline Array counted(const char* shape, DType dtype = DType::f32) {
  Array out(parse_shape(shape), dtype);
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, double(i));
  return out;
}

inline bool same(const Array& a, const Array& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && a.values() == b.values();
}
inline bool same(const Arrays& a, const Arrays& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](auto& x, auto& y) { return same(x, y); });
}

}  // namespace caravan::data
