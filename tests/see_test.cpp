// Seeing inside: listings, shapes, constraints, solved assignments, Graphviz and gradient checks.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

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
  for (const char* phrase : phrases) EXPECT_NE(text.find(phrase), std::string::npos) << "\"" << phrase << "\" is not in:\n" << text;
}
int lines(const std::string& text) { return int(std::count(text.begin(), text.end(), '\n')); }

// A linear map with a bias, its loss and one step down the gradient.
struct Model {
  Tensor x = tensor({{1, 2, 3}}), w = param("w", {.input = {1, 3}, .output = {2}, .init = ones()}), b = param("b");
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
  expect_phrases(text, {"[1] w <- []\n", "apply <- [1; 2]", "w(data)", "add <- [3; 4]", "square(add(..))", "sum <- [6]"});
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
  auto wrong = custom_gradient([](const Tensor& x) { return square(x); }, [](const Tensor& g, const Tensor& x) { return g * 2.001 * x; });
  auto forgotten = custom_gradient([](const Tensor& x) { return square(x); }, [](const Tensor&, const Tensor&) { return Tensor(); });
  auto nan = custom_gradient([](const Tensor& x) { return square(x); }, [](const Tensor& g, const Tensor&) { return g / 0.0 * 0.0; });
  Tensor x = param("x", {1, 2});
  Context ctx(kInDouble);
  EXPECT_FALSE(check_gradients(sum(wrong(x)), {x}, ctx).passed());
  EXPECT_FALSE(check_gradients(sum(forgotten(x)), {x}, ctx).passed());
  EXPECT_FALSE(check_gradients(sum(nan(x)), {x}, ctx).passed());
  EXPECT_TRUE(check_gradients(sum(square(x)), {x}, ctx).passed());
  Tensor edge = param("edge", {0, 1});  // the difference at 0 is NaN; what comes after must not hide it
  EXPECT_FALSE(check_gradients(sum(sqrt(edge)), {edge}, ctx).passed());
}

TEST(GradientCheck, PutsParametersBackWhenItFails) {
  Tensor x = param("x", {1, 2}), table = tensor(Array(parse_shape("3->1"), {1, 2, 3}));
  Tensor loss = sum(gather(table, cast(x * 1000 - 998, DType::i32))) + sum(x);  // moving x leaves the table
  Context ctx(kInDouble);
  ctx.write(x, Array::vector({1, 0.999}));
  EXPECT_THROW(check_gradients(loss, {x}, ctx), StateError);
  EXPECT_EQ(ctx.read(x).values(), (std::vector<double>{1, Array::vector({0.999}).at(0)}));
}

TEST(GradientCheck, SpreadsOverALargeParameterAndBindsIndices) {
  Index i("i");
  Tensor w = param("w", {.output = {1000}, .init = normal_init()}), x = normal("x", {.batch = {3}, .output = {1000}})[i];
  Context ctx(kInDouble);
  GradientCheck check = check_gradients(sum(sin(w * x)), {w}, ctx, {.max_per_parameter = 10, .indices = {{i, 2}}});
  EXPECT_TRUE(check.passed()) << check;
  EXPECT_EQ(check.elements.size(), 10u);
  EXPECT_EQ(check.elements.back().index, 900);
}

}  // namespace
}  // namespace caravan
