#include "caravan/array/array.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(Array::from_floats(parse_shape("2|"), floats).values(), (std::vector<double>{0.5, -1}));
  const uint8_t raw[] = {0, 255};
  EXPECT_EQ(Array::from_bytes(parse_shape("2"), raw).values(), (std::vector<double>{0, 255}));
  EXPECT_EQ(Array::from_bytes(parse_shape("2"), raw).dtype(), DType::u8);
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
  expect_refusal<ShapeError>([] { Array(parse_shape("10|2")).batches(0); }, {"0 does not divide"});
  expect_refusal<ShapeError>([&] { Array::zip(a, Array::vector({1}), [](double x, double) { return x; }); },
                             {"2->3", "\"1\""});
  expect_refusal<ShapeError>([] { Array::scalar(1).take({0}); }, {"scalar"});
  expect_refusal<ShapeError>([] { Array(parse_shape("4000000000,4000000000")); }, {"4000000000,4000000000", "2^63"});
  expect_refusal<ShapeError>(
      [] {
        Shape shape;
        shape.output.push_back({.size = -1, .basis = {}});
        Array{shape};
      },
      {"-1 is negative"});
  expect_refusal<StateError>([&] { a.at(6); }, {"element 6", "6 elements"});
  expect_refusal<StateError>([&] { a.at(-1); }, {"element -1"});
  expect_refusal<StateError>([&] { a.at({0, 2}); }, {"position 2 on axis 1", "size 2"});
  expect_refusal<StateError>([&] { a.at({0, 0, 0}); }, {"3 positions", "2 axes"});
  expect_refusal<StateError>([] { Array::vector({1}).set(1, 0); }, {"element 1", "1 element."});
  expect_refusal<StateError>([&] { a.take({0, 3}); }, {"row 3", "3 rows"});
  expect_refusal<DTypeError>([] { Array::scalar(300, DType::u8); }, {"300", "u8"});
  expect_refusal<DTypeError>([] { Array::vector({1, 1e40}); }, {"1e+40", "f32"});
  expect_refusal<DTypeError>([] { Array::matrix({{0.5}}, DType::i32); }, {"0.5", "i32"});
}

}  // namespace
}  // namespace caravan
