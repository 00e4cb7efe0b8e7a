#include "nn/layers.h"

namespace caravan {

double Table::at(const std::vector<int64_t>& position) const {
  EXPECT_EQ(position.size(), sizes.size());
  int64_t flat = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_TRUE(position[i] >= 0 && position[i] < sizes[i]);
    flat = flat * sizes[i] + position[i];
  }
  return values[size_t(flat)];
}

void expect_near(const Values& actual, const Values& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
}

void expect_near(const Array& actual, const Values& expected, double tolerance) {
  expect_near(actual.values(), expected, tolerance);
}

void expect_each(const Array& actual, const std::string& shape,
                 const std::function<double(const std::vector<int64_t>&)>& expected) {
  ASSERT_EQ(to_string(actual.shape()), shape);
  const std::vector<int64_t> sizes = actual.shape().sizes();
  std::vector<int64_t> at(sizes.size());
  for (int64_t i = 0; i < actual.size(); ++i) {
    int64_t rest = i;
    for (size_t k = sizes.size(); k-- > 0; rest /= sizes[k]) at[k] = rest % sizes[k];
    ASSERT_NEAR(actual.at(i), expected(at), kTolerance) << "element " << i;
  }
}

Tensor drawn_tensor(const std::string& name, const std::string& shape) { return tensor(drawn(name, shape), name); }
Tensor ids(const std::string& shape, const Values& values) {
  return tensor(Array(parse_shape(shape), values, DType::i32), "ids");
}

Names names(const std::vector<Tensor>& list) {
  Names out;
  for (const Tensor& t : list) out.push_back(t.name());
  return out;
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace caravan
