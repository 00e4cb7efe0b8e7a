#include "caravan/array/array.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <sstream>

#include "caravan/base/error.h"

namespace caravan {
namespace {

std::vector<double> iota(int n) {
  std::vector<double> out;
  for (int i = 0; i < n; ++i) out.push_back(i);
  return out;
}

TEST(Array, HoldsShapePrecisionAndValues) {
  EXPECT_EQ(Array().item(), 0);
  EXPECT_EQ(Array(parse_shape("2|3->4")).values(), std::vector<double>(24, 0.0));
  const Array a(parse_shape("2->3"), {1, 2, 3, 4, 5, 6.9}, DType::i32);
  EXPECT_EQ(a.values(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(a.dtype(), DType::i32);
  EXPECT_EQ(a.size(), 6);
  EXPECT_EQ(to_string(Array::vector({1, 2}).shape()), "2");
  EXPECT_EQ(to_string(Array::matrix({{1, 2, 3}, {4, 5, 6}}).shape()), "2,3");
  EXPECT_EQ(Array::scalar(0.1).item(), double(0.1f));
  EXPECT_EQ(Array::scalar(0.1, DType::f64).item(), 0.1);
  const float floats[] = {0.5f, -1};
  EXPECT_EQ(Array(parse_shape("2|"), floats).values(), (std::vector<double>{0.5, -1}));
  const uint8_t raw[] = {0, 255};
  EXPECT_EQ(Array(parse_shape("2"), raw).values(), (std::vector<double>{0, 255}));
  EXPECT_EQ(Array(parse_shape("2"), raw).dtype(), DType::u8);
  EXPECT_EQ(Array(parse_shape("0,3")).size(), 0);
}

TEST(Array, MemoryOrderIsBatchOutputInput) {
  const Array a(parse_shape("2|3->4"), iota(24));
  for (int64_t batch = 0; batch < 2; ++batch)
    for (int64_t output = 0; output < 4; ++output)
      for (int64_t input = 0; input < 3; ++input)
        EXPECT_EQ(a.at({batch, output, input}), (batch * 4 + output) * 3 + input);
  EXPECT_EQ(a.at(23), 23);
}

TEST(Array, CopiesShareUntilWritten) {
  Array a = Array::vector({1, 2, 3}), b = a;
  EXPECT_EQ(a.data(), b.data());
  b.set(1, 7);
  EXPECT_NE(a.data(), b.data());
  EXPECT_EQ(a.values(), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(b.values(), (std::vector<double>{1, 7, 3}));
  const void* before = b.data();
  b.set(0, 5);  // alone: in place
  EXPECT_EQ(b.data(), before);
  Array c = b.reshaped(parse_shape("3|"));
  EXPECT_EQ(c.data(), b.data());
  static_cast<float*>(c.mutable_data())[0] = -1;
  EXPECT_EQ(b.at(0), 5);
  EXPECT_EQ(c.at(0), -1);
}

TEST(Array, Converts) {
  const Array a = Array::vector({-1.5, 0, 300.7});
  EXPECT_EQ(a.cast(DType::i32).values(), (std::vector<double>{-1, 0, 300}));
  EXPECT_EQ(a.cast(DType::u8).values(), (std::vector<double>{0, 0, 255}));
  EXPECT_EQ(a.cast(DType::boolean).values(), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(a.cast(DType::f16).dtype(), DType::f16);
  Array u = Array::vector({1}, DType::u8);
  u.set(0, 300);
  EXPECT_EQ(u.item(), 255);
}

TEST(Array, MapsZipsTakesAndBatches) {
  const Array a = Array::vector({1, 2, 3});
  EXPECT_EQ(a.map([](double x) { return x * x; }).values(), (std::vector<double>{1, 4, 9}));
  EXPECT_EQ(Array::zip(a, Array::vector({1, 0, 1}, DType::f64), [](double x, double y) { return x - y; }).dtype(),
            DType::f64);
  EXPECT_EQ(Array::zip(a, a, [](double x, double y) { return x - y; }).values(), (std::vector<double>{0, 0, 0}));

  const Array rows(parse_shape("4|2->1"), iota(8));
  EXPECT_EQ(rows.take({3, 0, 3}).values(), (std::vector<double>{6, 7, 0, 1, 6, 7}));
  EXPECT_EQ(to_string(rows.take({3, 0, 3}).shape()), "3|2->1");
  EXPECT_EQ(to_string(Array(parse_shape("2->3"), iota(6)).take({1}).shape()),
            "2->1");  // the output axis is leftmost in memory
  EXPECT_EQ(Array(parse_shape("2->3"), iota(6)).take({1}).values(), (std::vector<double>{2, 3}));
  EXPECT_EQ(rows.take({}).size(), 0);
  EXPECT_EQ(to_string(rows.batches(2).shape()), "2,2|2->1");
  EXPECT_EQ(rows.batches(2).values(), rows.values());
}

TEST(Array, Prints) {
  struct {
    Array array;
    const char* text;
  } cases[] = {
      {Array::scalar(15), "15"},
      {Array::scalar(0.1), "0.1"},
      {Array::scalar(1.0 / 3, DType::f64), "0.333333"},
      {Array::vector({1, 2, 3}), "[1 2 3]"},
      {Array::vector({1e6, 1234567}), "[1e+06 1.23457e+06]"},
      {Array::vector({1e6, 1234567}, DType::i32), "[1000000 1234567]"},
      {Array::vector({1, 0}, DType::boolean), "[1 0]"},
      {Array::vector({NAN, -INFINITY}), "[nan -inf]"},
      {Array::vector({}), "[]"},
      {Array::matrix({{1, 2}, {3, 4}}), "[[1 2]\n [3 4]]"},
      {Array(parse_shape("2|1->2"), iota(4)), "[[[0]\n  [1]]\n\n [[2]\n  [3]]]"},
      {Array(parse_shape("2|3"), iota(6)), "[[0 1 2]\n [3 4 5]]"},
      {Array::vector(iota(13)), "[0 1 2 3 4 5 .. 7 8 9 10 11 12]"},
      {Array::vector(iota(12)), "[0 1 2 3 4 5 6 7 8 9 10 11]"},
  };
  for (const auto& [array, text] : cases) {
    std::ostringstream out;
    out << array;
    EXPECT_EQ(out.str(), text);
  }
  EXPECT_EQ(to_string(Array::vector(iota(100)), 3), "[0 1 .. 99]");
  EXPECT_EQ(to_string(Array(parse_shape("100|2"), iota(200)), 2), "[[0 1]\n ..\n [198 199]]");
}

template <class E>
void expect_refusal(const std::function<void()>& wrong, const std::vector<std::string>& phrases) {
  try {
    wrong();
    ADD_FAILURE() << "not refused: " << phrases[0];
  } catch (const E& error) {
    for (const std::string& phrase : phrases)
      EXPECT_NE(std::string(error.what()).find(phrase), std::string::npos) << error.what();
  }
}

TEST(Array, RefusesWithTheNumbers) {
  const Array a(parse_shape("2->3"), iota(6));
  expect_refusal<ShapeError>([] { Array(parse_shape("2->3"), {1, 2}); }, {"2->3", "6 elements", "2 values"});
  expect_refusal<ShapeError>([] { Array::matrix({{1, 2}, {3}}); }, {"row 0 has 2", "row 1 has 1"});
  expect_refusal<ShapeError>([&] { a.item(); }, {"one element", "2->3", "6"});
  expect_refusal<ShapeError>([&] { a.reshaped(parse_shape("5")); }, {"2->3", "6 elements", "\"5\"", "has 5"});
  expect_refusal<ShapeError>([&] { a.batches(2); }, {"batch axis", "2->3"});
  expect_refusal<ShapeError>([] { Array(parse_shape("10|2")).batches(4); }, {"10|2", "4 does not divide the 10"});
  expect_refusal<ShapeError>([] { Array(parse_shape("10|2")).batches(0); }, {"batches(0)", "positive"});
  expect_refusal<ShapeError>([&] { Array::zip(a, Array::vector({1}), [](double x, double) { return x; }); },
                             {"2->3", "\"1\""});
  expect_refusal<ShapeError>([] { Array::scalar(1).take({0}); }, {"a single number has no axis"});
  expect_refusal<ShapeError>([] { Array(parse_shape("4000000000,4000000000")); }, {"4000000000,4000000000", "2^63"});
  expect_refusal<ShapeError>(
      [] {
        Shape shape;
        shape.output.push_back(-1);
        Array{shape};
      },
      {"-1 is negative"});
  expect_refusal<StateError>([&] { a.at(6); }, {"element 6", "6 elements"});
  expect_refusal<StateError>([&] { a.at(-1); }, {"element -1"});
  expect_refusal<StateError>([&] { a.at({0, 2}); }, {"position 2 on axis 1", "size 2"});
  expect_refusal<StateError>([&] { a.at({0, 0, 0}); }, {"3 positions", "2 axes"});
  expect_refusal<StateError>([] { Array::vector({1}).set(1, 0); }, {"element 1", "1 element."});
  expect_refusal<StateError>([&] { a.take({0, 3}); }, {"position 3", "size 3"});
  expect_refusal<DTypeError>([] { Array::scalar(300, DType::u8); }, {"300", "u8"});
  expect_refusal<DTypeError>([] { Array::vector({1, 1e40}); }, {"1e+40", "f32"});
  expect_refusal<DTypeError>([] { Array::matrix({{0.5}}, DType::i32); }, {"0.5", "i32"});
}

TEST(Array, RowsOfALiteralAreExamples) {
  const int two = 2;
  const float half = 0.5f;
  struct {
    Array array;
    std::string shape, text;
  } table[] = {
      {rows({{0, 0}, {0, 1}, {1, 0}, {1, 1}}), "4|2", "[[0 0]\n [0 1]\n [1 0]\n [1 1]]"},
      {rows({{0}, {1}}), "2|1", "[[0]\n [1]]"},
      {rows({{3}}), "1|1", "[[3]]"},
      {rows({0, 1, 1, 0}), "4|", "[0 1 1 0]"},
      {rows({7}), "1|", "[7]"},
      {rows({{two, 0.5}, {half, true}}), "2|2", "[[2 0.5]\n [0.5 1]]"},
      {matrix({{1, 2, 3}, {4, 5, 6}}), "2,3", "[[1 2 3]\n [4 5 6]]"},
      {matrix({{1}, {two}}), "2,1", "[[1]\n [2]]"},
  };
  for (const auto& [array, shape, text] : table) {
    EXPECT_EQ(to_string(array.shape()), shape);
    EXPECT_EQ(to_string(array), text);
    EXPECT_EQ(array.dtype(), DType::f32);
  }
  EXPECT_EQ(rows({0, 2}, DType::i32).dtype(), DType::i32);
  expect_refusal<ShapeError>([] { rows({{1, 2}, {3}}); }, {"every example must have as many", "example 1 has 1"});
  expect_refusal<DTypeError>([] { rows({{300}}, DType::u8); }, {"300", "u8"});
}

TEST(Array, TakesNumbersOfAnyType) {
  const int64_t n = 2;
  const std::vector<float> floats{1, 2, 3, 0.1f};
  const std::array<int, 2> ints{-1, 7};
  const uint8_t raw[] = {0, 255};
  const size_t sizes[] = {1, size_t(1) << 40};
  const int16_t shorts[] = {-3, 4};
  const bool flags[] = {true, false};
  const double doubles[] = {0.1, 1e-3};
  struct {
    Array array;
    DType dtype;
    std::vector<double> values;
  } table[] = {
      {Array({.batch = {n}, .output = {2}}, floats), DType::f32, {1, 2, 3, double(0.1f)}},
      {Array({.batch = {n}}, std::span(floats).first(2)), DType::f32, {1, 2}},
      {Array({.batch = {n}}, ints), DType::i32, {-1, 7}},
      {Array({.batch = {n}}, raw), DType::u8, {0, 255}},
      {Array({.batch = {n}}, sizes), DType::i64, {1, 0x1p40}},
      {Array({.batch = {n}}, shorts), DType::i32, {-3, 4}},
      {Array({.batch = {n}}, flags), DType::boolean, {1, 0}},
      {Array({.batch = {n}}, doubles), DType::f32, {double(0.1f), double(1e-3f)}},
      {Array({.batch = {n}}, doubles, DType::f64), DType::f64, {0.1, 1e-3}},
      {Array({.batch = {n}}, ints, DType::u8), DType::u8, {0, 7}},
      {Array({.batch = {n}}, {1, 2}), DType::f32, {1, 2}},
  };
  for (const auto& [array, dtype, values] : table) {
    EXPECT_EQ(array.dtype(), dtype);
    EXPECT_EQ(array.values(), values);
  }
  expect_refusal<ShapeError>([&] { Array({.batch = {3}}, floats); }, {"3 elements", "4 values"});
  expect_refusal<DTypeError>([] { Array({.batch = {1}}, std::vector<uint64_t>{~uint64_t(0)}); },
                             {"18446744073709551615", "i64"});
}

TEST(Array, ViewsMemoryOfTheUser) {
  std::vector<float> floats{1, 2, 3, 4};
  Array a = Array::view({.batch = {2}, .output = {2}}, floats);
  EXPECT_EQ(a.data(), floats.data());
  EXPECT_EQ(a.part(1, 1).data(), floats.data() + 2);
  Array b = a;
  b.set(0, 9);  // a copy
  EXPECT_NE(b.data(), floats.data());
  a.set(1, 8);  // alone, and still not the user's
  EXPECT_EQ(floats, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(a.values(), (std::vector<double>{1, 8, 3, 4}));
  EXPECT_EQ(a.as<float>()[1], 8);
  expect_refusal<DTypeError>([&] { a.as<int>(); }, {"f32", "i32"});
  std::vector<int> out(4);
  b.copy_to(std::span(out));
  EXPECT_EQ(out, (std::vector<int>{9, 2, 3, 4}));
  expect_refusal<ShapeError>([&] { b.copy_to(std::span(out).first(2)); }, {"4 elements", "memory of 2"});
  expect_refusal<ShapeError>([&] { Array::view({.batch = {3}}, floats); }, {"3 elements", "4 values"});
}

TEST(Array, PartsShareTheElements) {
  const Array a({.batch = {3}, .output = {2}}, {0, 1, 2, 3, 4, 5});
  const Array middle = a.part(1, 2);
  EXPECT_EQ(to_string(middle.shape()), "2|2");
  EXPECT_EQ(middle.values(), (std::vector<double>{2, 3, 4, 5}));
  EXPECT_EQ(middle.part(1, 1).values(), (std::vector<double>{4, 5}));
  EXPECT_EQ(middle.take({1, 0}).values(), (std::vector<double>{4, 5, 2, 3}));
  EXPECT_EQ(middle.cast(DType::i32).values(), (std::vector<double>{2, 3, 4, 5}));
  Array changed = middle;
  changed.set(0, 9);
  EXPECT_EQ(changed.values(), (std::vector<double>{9, 3, 4, 5}));
  EXPECT_EQ(a.at(2), 2);
  EXPECT_EQ(a.part(3, 0).size(), 0);
  expect_refusal<StateError>([&] { a.part(2, 2); }, {"part(2, 2)", "size 3"});
  expect_refusal<StateError>([&] { a.part(-1, 2); }, {"part(-1, 2)"});
}

TEST(Array, RandomOnesAreFunctionsOfTheSeed) {
  const Shape shape{.batch = {1000}, .output = {3}};
  const Array normals = random_normal(shape, 1), again = random_normal(shape, 1), others = random_normal(shape, 2);
  EXPECT_EQ(normals.values(), again.values());
  EXPECT_NE(normals.values(), others.values());
  double sum = 0, squares = 0;
  for (double v : normals.values()) sum += v, squares += v * v;
  EXPECT_NEAR(sum / 3000, 0, 0.06);
  EXPECT_NEAR(squares / 3000, 1, 0.1);
  for (double v : random_uniform(shape, 3, -1, 2).values()) EXPECT_TRUE(v >= -1 && v < 2) << v;
  std::vector<int> seen(5);
  const Array ids = random_ids(shape, 5, 4);
  EXPECT_EQ(ids.dtype(), DType::i32);
  for (int id : ids.as<int>()) ++seen.at(size_t(id));
  for (int count : seen) EXPECT_NEAR(count, 600, 100);
  expect_refusal<ConfigError>([&] { random_ids(shape, 0, 1); }, {"range", "0"});
}

}  // namespace
}  // namespace caravan
