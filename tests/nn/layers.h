// What the tests of layers share. Layers are held to plain loops in double: shapes, names, values, phases. Their
// gradients are checked by gradcheck_test, and cpu_test runs all of them compiled.
#pragma once

#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "caravan/check/draw.h"
#include "contains.h"

namespace caravan {

using namespace nn;
using Values = std::vector<double>;

inline const ContextOptions kInDouble{.seed = 5, .device = "interp"};  // the oracle: every float in double
constexpr DType kDouble = DType::f64;
constexpr double kTolerance = 1e-11;

// A flat array with sizes in memory order, and how a loop reads it.
struct Table {
  Values values;
  std::vector<int64_t> sizes;
  explicit Table(const Array& array) : values(array.values()), sizes(array.shape().sizes()) {}
  template <class... Positions>
  double operator()(Positions... positions) const {
    return at({int64_t(positions)...});
  }
  double at(const std::vector<int64_t>& position) const;
};

void expect_near(const Values& actual, const Values& expected, double tolerance = kTolerance);
void expect_near(const Array& actual, const Values& expected, double tolerance = kTolerance);

// Every element by a function of its position; the shape is checked first.
void expect_each(const Array& actual, const std::string& shape,
                 const std::function<double(const std::vector<int64_t>&)>& expected);

Tensor drawn_tensor(const std::string& name, const std::string& shape);
Tensor ids(const std::string& shape, const Values& values);

using Names = std::vector<std::string>;
Names names(const std::vector<Tensor>& list);

// What a user writes: a struct with a call operator, nothing else.
struct OwnModel {
  Conv2d conv{"conv", {.channels = 3}};
  BatchNorm norm{"norm"};
  Linear head{"head", {.output = {10}}};
  Tensor operator()(const Tensor& x, const Phase& phase) const {
    return head(relu(norm(conv(x, phase), phase)), phase);
  }
};

// The message of the error that `f` throws.
std::string refusal(const std::function<void()>& f);
#define EXPECT_REFUSED(expression, phrase) EXPECT_CONTAINS(refusal([&] { expression; }), phrase)

}  // namespace caravan
