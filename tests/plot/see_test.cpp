// Seeing inside: listings, shapes, constraints, solved assignments, Graphviz and gradient checks.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "caravan/backend/backend.h"
#include "caravan/backend/interp/device.h"
#include "forwarding_device.h"

namespace caravan {
namespace {

const ContextOptions kInDouble{.device = "interp"};  // the oracle: every float in double

template <class Print>
std::string text_of(Print print) {
  std::ostringstream out;
  print(out);
  return out.str();
}
void expect_phrases(const std::string& text, std::initializer_list<const char*> phrases) {
  for (const char* phrase : phrases)
    EXPECT_NE(text.find(phrase), std::string::npos) << "\"" << phrase << "\" is not in:\n" << text;
}
int lines(const std::string& text) { return int(std::count(text.begin(), text.end(), '\n')); }

// A linear map with a bias, its loss and one step down the gradient.
struct Model {
  Tensor x = matrix({{1, 2, 3}}), w = param("w", {.input = {1, 3}, .output = {2}, .init = ones()}), b = param("b");
  Tensor loss = sum(square(w(x) + b));
  Program step = train_step(loss, sgd({.lr = 0.1}));
};

TEST(See, TheGraphWithValuesAndGradients) {
  Tensor x = param("x", {1, 2}), y = sum(square(x));
  Context ctx(kInDouble);
  EXPECT_EQ(text_of([&](auto& out) { print_graph(out, y, ctx); }),
            "[1] x <- []: data=[1 2], grad=[2 4]\n"
            "[2] square <- [1]: data=[1 4], grad=[1 1]\n"
            "[3] sum <- [2]: data=5, grad=1\n");
}

TEST(See, TheGraphWithoutValuesNeedsNoShapes) {
  Model m;
  std::string text = text_of([&](auto& out) { print_graph(out, m.loss); });
  EXPECT_EQ(lines(text), 7);
  expect_phrases(text, {"[1] w <- []\n", "apply w <- [1; 2]", "w(data)", "w(..) + b", "square(add(..))", "sum <- [6]"});
}

TEST(See, IntegersHaveNoGradientToShow) {
  Tensor n = tensor(Array::vector({1, 2}, DType::i32)), x = param("x", {3, 4});
  Context ctx(kInDouble);
  std::string text = text_of([&](auto& out) { print_graph(out, sum(n * x), ctx); });
  expect_phrases(text, {"data <- []: data=[1 2]\n", "x <- []: data=[3 4], grad=[1 2]"});
  expect_phrases(text_of([&](auto& out) { print_graph(out, sum(n), ctx); }), {"sum <- [1]: data=3\n"});
}

TEST(See, ShapesConstraintsAndAssignments) {
  Model m;
  std::string shapes = text_of([&](auto& out) { print_shapes(out, m.step); });
  expect_phrases(shapes, {"w ", "1,3->2", "f32", "b ", "w(data)", "()"});
  std::string constraints = text_of([&](auto& out) { print_constraints(out, m.step); });
  EXPECT_GT(lines(constraints), 5);
  std::string solved = text_of([&](auto& out) { print_assignments(out, m.step); });
  expect_phrases(solved, {"w", "+=", "1,3->2"});
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.compile(m.step).to_string(), solved);
}

// What was loaded into a Context decides shapes that the program alone leaves open.
TEST(See, TheStagesOfARoutineHaveTheStatesOfItsContext) {
  Tensor x = input("x"), y = sum(square(x)).named("y");
  Context ctx(kInDouble);
  ctx.write(x, Array(parse_shape("2|3"), {1, 2, 3, 4, 5, 6}));
  const Program program = observe(y);
  const Routine routine = ctx.compile(program);
  EXPECT_EQ(text_of([&](auto& out) { print_shapes(out, program); }).find("2|3"), std::string::npos);
  expect_phrases(text_of([&](auto& out) { print_shapes(out, routine); }), {"x", "2|3", "square(x)"});
  expect_phrases(text_of([&](auto& out) { print_constraints(out, routine); }),
                 {"= [2]   # x in the Context", "= [3]   # x in the Context"});
  expect_phrases(text_of([&](auto& out) { print_assignments(out, routine); }), {"x: 2|3"});
  for (const Routine* given : {&routine, static_cast<const Routine*>(nullptr)})
    expect_phrases(text_of([&](auto& out) { write_trace(out, program, ctx, {.routine = given}); }),
                   {"\"label\": \"x\"", "\"shape\": \"2|3\""});
}

TEST(See, ATensorSaysWhatItIs) {
  Tensor x = param("x", {1, 2});
  expect_phrases(text_of([&](auto& out) { out << x + 1; }), {"x + 1", "f32", "see_test.cpp:"});
  EXPECT_EQ(text_of([](auto& out) { out << Tensor(); }), "an undefined tensor");
}

TEST(See, Graphviz) {
  Model m;
  std::string dot = graphviz(sum(m.w(m.x)).named("a \"quoted\" name"));
  EXPECT_EQ(std::count(dot.begin(), dot.end(), '{'), std::count(dot.begin(), dot.end(), '}'));
  EXPECT_EQ(std::count(dot.begin(), dot.end(), '['), std::count(dot.begin(), dot.end(), ']'));
  EXPECT_EQ(dot.find("digraph "), 0u);
  expect_phrases(dot, {"n1 [label=\"w\"", "n1 -> n3;", "n2 -> n3;", "n3 -> n4;", "w(data)"});
}

TEST(See, TheTraceKeepsLabelsAndTheNamesOfAxes) {
  Tensor x = input("the \"input\"", {.batch = {2}, .input = Extents{}, .output = {3}}),
         w = param("w", {.output = {4, 3}, .init = ones()});
  Tensor scores = einsum("batch | feature; head, feature => batch | head", x, w).named("scores"),
         loss = sum(log(scores));
  Context ctx(kInDouble);
  ctx.write(x, Array(parse_shape("2|3"), {1, 2, 3, -1, -2, -3}));
  const std::string text = text_of([&](auto& out) { write_trace(out, train_step(loss, sgd({.lr = 0.1})), ctx); });
  expect_phrases(
      text, {"\"name\": \"feature\",\n        \"size\": 3", "\"name\": \"head\",\n        \"size\": 4",
             "\"label\": \"the \\\"input\\\"\"", "batch | feature; head, feature => batch | head",
             "\"line\": \"see_test.cpp:",
             "\"name\": \"feature\",\n            \"size\": 3,\n            \"reduced\": true", "\"shape\": \"2|4\""});
  const nlohmann::json values = nlohmann::json::parse(text)["values"];
  auto value = [&](const std::string& label) {
    return *std::find_if(values.begin(), values.end(), [&](const auto& v) { return v["label"] == label; });
  };
  EXPECT_EQ(value("scores")["first"], (std::vector<double>{6, 6, 6, 6, -6, -6, -6, -6}));
  EXPECT_EQ(value("scores")["min"], -6);
  EXPECT_EQ(value("scores")["max"], 6);
  EXPECT_EQ(value("scores")["mean"], 0);
  EXPECT_EQ(value("scores")["nan"], 0);
  EXPECT_EQ(value("sum")["nan"], 1);
  EXPECT_EQ(value("sum")["infinite"], 0);
  EXPECT_TRUE(value("sum")["first"][0].is_null()) << "JSON has no NaN";
  EXPECT_EQ(text.find("nan,"), std::string::npos);
  EXPECT_EQ(ctx.read(w).values(), std::vector<double>(12, 1.0)) << "nothing is assigned";
}

TEST(GradientCheck, ShowsBothSidesAndPasses) {
  Model m;
  Context ctx(kInDouble);
  GradientCheck check = check_gradients(m.loss, {m.w, m.b}, ctx);
  EXPECT_TRUE(check.passed()) << check;
  EXPECT_EQ(check.elements.size(), 8u);
  std::string text = text_of([&](auto& out) { out << check; });
  EXPECT_EQ(lines(text), 10);
  expect_phrases(text, {"numeric", "analytic", "w ", "b ", "worst error"});
  EXPECT_EQ(ctx.read(m.w).values(), std::vector<double>(6, 1.0)) << "put back as it was";
}

TEST(GradientCheck, CatchesAWrongRule) {
  auto wrong = custom_gradient([](const Tensor& x) { return square(x); },
                               [](const Tensor& g, const Tensor& x) { return g * 2.001 * x; });
  auto forgotten =
      custom_gradient([](const Tensor& x) { return square(x); }, [](const Tensor&, const Tensor&) { return Tensor(); });
  auto nan = custom_gradient([](const Tensor& x) { return square(x); },
                             [](const Tensor& g, const Tensor&) { return g / 0.0 * 0.0; });
  Tensor x = param("x", {1, 2});
  Context ctx(kInDouble);
  EXPECT_FALSE(check_gradients(sum(wrong(x)), {x}, ctx).passed());
  EXPECT_FALSE(check_gradients(sum(forgotten(x)), {x}, ctx).passed());
  EXPECT_FALSE(check_gradients(sum(nan(x)), {x}, ctx).passed());
  EXPECT_TRUE(check_gradients(sum(square(x)), {x}, ctx).passed());
  Tensor edge = param("edge", {0, 1});  // the difference at 0 is NaN; what comes after must not hide it
  EXPECT_FALSE(check_gradients(sum(sqrt(edge)), {edge}, ctx).passed());
}

// The interpreter, out of order after so many runs.
class Breaks : public ForwardingDevice {
 public:
  explicit Breaks(int after) : ForwardingDevice(interp::make_device(0)), left_(std::make_shared<int>(after)) {}
  std::string name() const override { return "breaks"; }
  std::unique_ptr<backend::Executable> prepare(std::shared_ptr<const plan::Plan> plan) override {
    return std::make_unique<Run>(device_->prepare(std::move(plan)), left_);
  }

 private:
  struct Run : backend::Executable {
    Run(std::unique_ptr<backend::Executable> run, std::shared_ptr<int> left)
        : run_(std::move(run)), left_(std::move(left)) {}
    void run(const std::vector<int64_t>& symbols) override {
      if ((*left_)-- == 0) throw BackendError("out of order");
      run_->run(symbols);
    }
    Array observed(size_t which) const override { return run_->observed(which); }
    std::unique_ptr<backend::Executable> run_;
    std::shared_ptr<int> left_;
  };
  std::shared_ptr<int> left_;
};

TEST(GradientCheck, PutsParametersBackWhenItFails) {
  Tensor x = param("x", {1, 2});
  for (int runs : {1, 3, 4}) {  // the gradient itself is the first
    ContextOptions options;
    options.make_device = [&](const ContextOptions&) { return std::make_unique<Breaks>(runs); };
    Context ctx(options);
    EXPECT_EQ(ctx.device(), "breaks");
    ctx.write(x, Array::vector({1, 0.999}));
    EXPECT_THROW(check_gradients(sum(square(x)), {x}, ctx), BackendError);
    EXPECT_EQ(ctx.read(x).values(), (std::vector<double>{1, Array::vector({0.999}).at(0)})) << runs;
  }
}

TEST(GradientCheck, SpreadsOverALargeParameterAndBindsIndices) {
  Index i("i");
  Tensor w = param("w", {.output = {1000}, .init = normal_init()}),
         x = normal("x", {.batch = {3}, .output = {1000}, .step = 0})[i];
  Context ctx(kInDouble);
  GradientCheck check = check_gradients(sum(sin(w * x)), {w}, ctx, {.max_per_parameter = 10, .indices = {{i, 2}}});
  EXPECT_TRUE(check.passed()) << check;
  EXPECT_EQ(check.elements.size(), 10u);
  EXPECT_EQ(check.elements.back().index, 900);
}

}  // namespace
}  // namespace caravan
