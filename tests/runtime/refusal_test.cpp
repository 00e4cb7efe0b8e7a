// Programs that must be refused: each with a message that names what the user has to look at, and without any effect on
// the Context it was tried in.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <functional>

#include "this_device.h"

namespace caravan {
namespace {

using Phrases = std::vector<std::string>;

struct Refusal {
  const char* what;
  Phrases phrases;  // all of them in the message
  std::function<void(Context&)> program;
};

Array counting(const char* shape) {
  Array out(parse_shape(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, double(i));
  return out;
}
Tensor data(const char* label, const char* shape) { return tensor(counting(shape), label); }

// One Context for the whole table: after each refusal it must be as it was, and work.
class Unchanged {
 public:
  Unchanged() {
    ctx.eval(kept_);
    names_ = ctx.names();
  }
  Context ctx{here(7)};

  void expect(const char* what) {
    EXPECT_EQ(ctx.names(), names_) << what << " left something behind";
    EXPECT_EQ(ctx.read("kept").values(), (std::vector<double>{1, 2, 3})) << what;
    EXPECT_EQ(ctx.eval(kept_ * 2).values(), (std::vector<double>{2, 4, 6})) << what;
  }

 private:
  Tensor kept_ = param("kept", {1, 2, 3});
  std::vector<std::string> names_;
};

template <class Expected = UserError>
void check(const std::vector<Refusal>& table) {
  Unchanged unchanged;
  for (const Refusal& row : table) {
    try {
      row.program(unchanged.ctx);
      ADD_FAILURE() << row.what << ": not refused";
    } catch (const Expected& error) {
      for (const std::string& phrase : row.phrases)
        EXPECT_NE(std::string(error.what()).find(phrase), std::string::npos)
            << row.what << "\nexpected: " << phrase << "\n     got: " << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << row.what << ": an error of another kind: " << error.what();
    }
    unchanged.expect(row.what);
  }
}

// --- syntax: the caret stands under the column ---

struct Syntax {
  const char* spec;
  int column;  // counted from 1
  const char* phrase;
};

TEST(Refusal, SyntaxWithACaret) {
  const std::vector<Syntax> table = {
      // clang-format off
      {"ij",                   3, "expected `=>`"},
      {"",                     1, "expected `=>`"},
      {"i => j => k",          8, "unexpected text"},
      {"i | j | k => i",       7, "`|` stands once"},
      {"i -> j -> k => i",     8, "`->` stands once"},
      {"i -> j | k => i",      8, "`|` stands once"},
      {"i,,j => i",            3, "expected an axis before `,`"},
      {", i => i",             1, "expected an axis before `,`"},
      {"row col, x => x",      5, "expected `,` between axes"},
      {"......  => ",          4, "at most one ellipsis"},
      {"..r. => ",             4, "a row variable is written `..name..`"},
      {"..3.. => ",            3, "expected the name"},
      {"1 2 => ",              3, "would be one number"},
      {"i$ => i",              2, "expected an axis"},
      {"a, $ => a",            4, "expected an axis"},
      {"i => i_",              7, "`_` is reduced away"},
      {"- => i",               3, "expected the name"},
      {"0*n => n",             1, "a stride is at least 1"},
      {"o+0*k => o",           1, "a dilation is at least 1"},
      {"o= => o",              4, "`+ kernel`"},
      {"o<2 => o",             5, "`+ kernel`"},
      {"n+1 => n",             1, "an offset alone is written `1*name+offset`"},
      {"o+o => o",             1, "the two names of a window must differ"},
      {"o+1+2+k => o",         6, "a window has one offset"},
      {"2*3 => ",              3, "expected the name"},
      {"a^ => a",              4, "expected the name"},
      {"a^a => a",             1, "stands once in a concatenation"},
      {"1^2 => ",              1, "at least one named part"},
      {"a& => a",              4, "expected the name"},
      {"a&2 => a",             3, "expected the name"},
      {"99999999999, i => i", 10, "a number this large"},
      {"i, ..i.. => i",        1, "as an axis and as a row variable"},
      {"..r.., o+r => o",      8, "as an axis and as a row variable"},
      {"i => ..r..",           6, "a row variable that no operand has"},
      {"...| => ...->",        9, "a row variable that no operand has"},
      // clang-format on
  };
  for (const Syntax& row : table) {
    try {
      einsum(spec(row.spec), 1.0);
      ADD_FAILURE() << "\"" << row.spec << "\" is not refused";
    } catch (const SpecError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(row.phrase), std::string::npos) << text;
      EXPECT_TRUE(
          text.ends_with("\n  " + std::string(row.spec) + "\n  " + std::string(size_t(row.column) - 1, ' ') + "^"))
          << text;
    }
  }
}

TEST(Refusal, Specs) {
  check<SpecError>({
      {"too few operands",
       {"\"ij;jk=>ik\"", "refusal_test.cpp:", "has 2 shapes before `=>`, but the call has 1 operand"},
       [](Context&) { einsum(spec("ij;jk=>ik"), data("a", "2,2")); }},
      {"too many operands",
       {"has 1 shapes", "the call has 3 operands"},
       [](Context&) { einsum(spec("i=>i"), 1.0, 2.0, 3.0); }},
      {"a bound name that is not in the spec",
       {"\"i => i\"", "`j`", "does not stand in the spec"},
       [](Context&) {
         einsum("i => i", data("a", "3"), {{"j", 3}});
       }},
      {"a captured name that is not in the spec",
       {"`j`", "does not stand in the spec"},
       [](Context&) {
         Dim d;
         einsum("i => i", data("a", "3"), {{"j", d}});
       }},
      {"an equated name that is not in the spec",
       {"`k`", "does not stand in the spec"},
       [](Context&) {
         einsum("i => i", data("a", "3"), {{"i", "k"}});
       }},
      {"a factor of a name that is not in the spec",
       {"`k`"},
       [](Context&) {
         einsum("i => i", data("a", "3"), {{"i", times(2, "k")}});
       }},
      {"a factor of 0",
       {"the factor of `i` is 0"},
       [](Context&) {
         einsum("i => i", data("a", "3"), {{"i", times(0, "i")}});
       }},
      {"a size of 0",
       {"`i` is bound to 0", "at least 1"},
       [](Context&) {
         einsum("i => i", data("a", "3"), {{"i", 0}});
       }},
      {"a stride without a value",
       {"`s` is a stride and needs a value", "{\"s\", n}"},
       [](Context&) { einsum("s*n => n", data("a", "3")); }},
      {"a dilation without a value",
       {"`d` is a dilation"},
       [](Context&) { einsum("o+d*k; k => o", data("a", "3"), data("k", "2")); }},
      {"a padding without a value",
       {"`p` is a padding"},
       [](Context&) { einsum("o<p+k; k => o", data("a", "3"), data("k", "2")); }},
      {"a stride that is also an axis",
       {"`s`", "as an axis and as a stride"},
       [](Context&) {
         einsum("s*n, s => n", data("a", "3,2"), {{"s", 2}});
       }},
      {"a stride of 0",
       {"a stride of 0 is too small"},
       [](Context&) {
         einsum("s*n => n", data("a", "3"), {{"s", 0}});
       }},
      {"a negative padding",
       {"a padding of -1"},
       [](Context&) {
         einsum("o<p+k; k => o", data("a", "3"), data("k", "2"), {{"p", -1}});
       }},
      {"a condition without a comparison",
       {"\"i\"", "has no comparison", "j <= i"},
       [](Context&) { einsum("i => i", data("a", "3"), {{"i"}}); }},
      {"a condition on another name",
       {"`k`", "not an axis of the spec"},
       [](Context&) { einsum("i => i", data("a", "3"), {{"i <= k"}}); }},
      {"a condition with an empty side",
       {"has an empty side"},
       [](Context&) { einsum("i => i", data("a", "3"), {{"i < "}}); }},
      {"no part reaches the result",
       {"no part of the concatenation reaches the result"},
       [](Context&) { einsum("a^b => a, b", data("a", "3")); }},
      {"an operand that is no part",
       {"operand 2 must be exactly one part"},
       [](Context&) { concat("a; b => a^1", data("a", "3"), data("b", "3")); }},
  });
}

TEST(Refusal, Sizes) {
  constexpr int64_t kHuge = int64_t(1) << 62;
  check<ShapeError>({
      {"parts whose sum overflows",
       {"2^40"},
       [=](Context& ctx) {
         ctx.shape(concat("i; j => i^j", param("a", {.output = {kHuge}}), param("b", {.output = {kHuge}})));
       }},
      {"a written window that overflows",
       {"2^40"},
       [=](Context& ctx) { ctx.shape(einsum("i; k => 2*i+k", param("a", {.output = {kHuge}}), data("k", "3"))); }},
      {"more elements than memory has",
       {"2^40 elements"},
       [](Context& ctx) {
         ctx.eval(einsum("i => j, k", data("a", "3"), {{"j", int64_t(1) << 32}, {"k", int64_t(1) << 32}}));
       }},
      {"more axes than a row has",
       {"33 axes", "at most 32"},
       [](Context& ctx) {
         ctx.shape(tensor(Array(parse_shape("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"))));
       }},
      {"two sizes for one axis",
       {"ij;jk=>ik", "axis `j`", "`left`", "`right`", "4", "5", "refusal_test.cpp:"},
       [](Context& ctx) { ctx.eval(einsum("ij;jk=>ik", data("left", "3,4"), data("right", "5,6"))); }},
      {"two sizes in a pointwise operation",
       {"`left + right`", "`left`", "`right`", "3", "4"},
       [](Context& ctx) { ctx.eval(data("left", "2|3") + data("right", "2|4")); }},
      {"a bound size against a tensor's",
       {"axis `i`", "3", "8", "`a`"},
       [](Context& ctx) {
         ctx.eval(einsum("i => i", data("a", "3"), {{"i", 8}}));
       }},
      {"two bases for one axis",
       {"`rgb`", "`heads`", "different bases do not match"},
       [](Context& ctx) { ctx.eval(data("left", "3rgb") + data("right", "3heads")); }},
      {"a given 1 against 5",
       {"`one`", "`five`", "1", "5", "An axis of 1 that was given is not broadcast", "`0`"},
       [](Context& ctx) { ctx.eval(data("one", "1") * data("five", "5")); }},
      {"a kept mean equated with 3",
       {"b|i; i => b|", "3"},
       [](Context& ctx) {
         ctx.eval(einsum("b|i; i => b|", einsum("...|... => ...|0", data("x", "10|4")), data("three", "3")));
       }},
      {"different numbers of axes",
       {"`ij => i`", "2 output axes by the spec, but 1 by `x`"},
       [](Context& ctx) { ctx.eval(einsum("ij => i", data("x", "3"))); }},
      {"w * x for w(x): the sizes",
       {"`w * x`", "4", "3", "`w`", "`x`", "w(x), not w * x"},
       [](Context& ctx) { ctx.eval(param("w", {.input = {3}, .output = {4}}) * data("x", "2|3")); }},
      {"w * x for w(x): the numbers of axes",
       {"`w * x`", "1 input axis by", "but none by", "w(x), not w * x"},
       [](Context& ctx) {
         ctx.eval(einsum("b|o => b", param("w", {.input = {3}, .output = {3}}) * data("x", "2|3")));
       }},
      {"apply where the numbers of axes differ",
       {"`w(x)`", "2 output axes by `w`", "but 1 by `x`"},
       [](Context& ctx) {
         ctx.eval(param("w", {.input = {3, 4}, .output = {2}})(data("x", "5|3")));
       }},
      {"infinitely many axes, directly",
       {"infinitely many axes", "..r..; i, ..r.. => "},
       [](Context& ctx) {
         Tensor s = state("s");
         ctx.eval(einsum("..r..; i, ..r.. => ", s, s));
       }},
      {"infinitely many axes through a cycle",
       {"infinitely many axes", "one axis more than it has"},
       [](Context& ctx) {
         Tensor s = state("s"), t = state("t");
         ctx.compile(assign(s, einsum("... => 0, ...", t)) & assign(t, s * 2));
       }},
      {"undetermined parameters, all of them",
       {"parameter `w1`", "parameter `w2`", "parameter `b`", "`.output = {", "refusal_test.cpp:"},
       [](Context& ctx) {
         Tensor w1 = param("w1"), w2 = param("w2"), b = param("b");
         ctx.eval(sum(w2(w1(data("x", "5|3"))) + b));
       }},
      {"an undetermined axis of a parameter",
       {"parameter `w1`: its output axis is not determined; give `.output = {n}` here (refusal_test.cpp:"},
       [](Context& ctx) {
         Tensor w1 = param("w1"), w2 = param("w2");
         ctx.eval(einsum("i->h; h->o => i->o", w1, w2) + data("x", "3->2"));
       }},
      {"w2(z) + b against 28,28",
       {"parameter `w2`", "`.output", "parameter `b`"},
       [](Context& ctx) {
         Tensor w2 = param("w2"), b = param("b");
         ctx.eval(sum(square(w2(data("z", "10|5")) + b - data("target", "10|28,28"))));
       }},
      {"W * m", {"parameter `m`", "`.input"}, [](Context& ctx) { ctx.eval(data("W", "3->4") * param("m")); }},
      {"the open kernel",
       {"parameter `kernel`", "output"},
       [](Context& ctx) {
         ctx.eval(einsum("... | oh+kh, ow+kw, ..ic..; kh, kw, ..ic.. -> ..oc.. => ... | oh, ow, ..oc..",
                         data("x", "2|8,8,3"), param("kernel")) +
                  param("b", {.output = {16}}));
       }},
      {"a factor that does not divide",
       {"4 does not divide 10"},
       [](Context& ctx) {
         ctx.eval(einsum("f; c => f", data("x", "10"), param("p"), {{"f", times(4, "c")}}));
       }},
      {"a split that does not divide",
       {"x&y => x, y", "5 does not divide 12", "`whole`"},
       [](Context& ctx) {
         ctx.eval(einsum("x&y => x, y", data("whole", "12"), {{"y", 5}}));
       }},
      {"parts longer than the whole",
       {"parts of the concatenation are longer than the whole", "a^b", "5", "4"},
       [](Context& ctx) { ctx.eval(concat("a; b => a^b", data("x", "5"), param("p")) + data("y", "4")); }},
      {"a run longer than the axis",
       {"longer than the whole", "9", "8"},
       [](Context& ctx) { ctx.eval(einsum("9^rest => rest", data("x", "8"))); }},
      {"a fixed index beyond the axis",
       {"`i3 => i`", "the fixed index 3 is beyond the axis of size 3", "`x`"},
       [](Context& ctx) { ctx.eval(einsum("i3 => i", data("x", "4,3"))); }},
      {"a written index against another size",
       {"i => i2", "3", "4"},
       [](Context& ctx) { ctx.eval(einsum("i => i2", data("x", "4")) + data("y", "4,4")); }},
      {"a window that does not fit",
       {"o+2*k", "window of 5", "does not fit into 4"},
       [](Context& ctx) { ctx.eval(einsum("o+2*k; k => o", data("x", "4"), data("k", "3"))); }},
      {"an offset beyond the axis",
       {"offset 9", "size 4"},
       [](Context& ctx) { ctx.eval(einsum("2*n+9 => n", data("x", "4"))); }},
      {"a name without a size",
       {"`j`", "not determined", "{\"j\", n}"},
       [](Context& ctx) { ctx.eval(einsum("i => ij", data("x", "4"))); }},
      {"a slice's range beyond the axis",
       {"the index has the range 5", "size 3"},
       [](Context& ctx) {
         ctx.eval(data("x", "3|2")[Index("i", 5)], {{Index("i", 5), 0}});
       }},
      {"a Dim that nothing captured", {"captured"}, [](Context& ctx) { ctx.eval(data("x", "3") * Dim()); }},
      {"assignment of another shape",
       {"`s := ", "3", "4"},
       [](Context& ctx) { ctx.run(assign(state("s", {.output = {3}, .init = zeros()}), data("x", "4"))); }},
  });
}

TEST(Refusal, State) {
  Index i("i", 3);
  check<StateError>({
      {"an Index beyond its range",
       {"`i`", "3", "0..2"},
       [&](Context& ctx) {
         ctx.eval(data("x", "3|2")[i], {{i, 3}});
       }},
      {"an Index beyond the axis it slices",
       {"`any`", "3"},
       [&](Context& ctx) {
         Index any("any");
         ctx.eval(data("x", "3|2")[any], {{any, 3}});
       }},
      {"an Index that is not bound", {"`i`", "not bound"}, [&](Context& ctx) { ctx.eval(data("x", "3|2")[i]); }},
      {"reading what is not observed",
       {"`x * 2`", "not observed", "observe"},
       [](Context& ctx) {
         Tensor x = data("x", "3"), y = x * 2;
         Routine r = ctx.compile(observe(x + 1));
         r.run();
         r.read(y);
       }},
      {"reading before running",
       {"run"},
       [](Context& ctx) {
         Tensor y = data("x", "3") * 2;
         ctx.compile(observe(y)).read(y);
       }},
      {"running with state never initialised",
       {"`velocity`"},
       [](Context& ctx) {
         Tensor v = state("velocity", {.output = {3}});
         ctx.run(observe(v + 1));
       }},
      {"reading state that does not exist", {"`nothing`", "kept"}, [](Context& ctx) { ctx.read("nothing"); }},
      {"two parameters of one name",
       {"`w`", "refusal_test.cpp:", "name of its own"},
       [](Context& ctx) { ctx.eval(param("w", 1.0) + param("w", 2.0)); }},
      {"two assignments to one state",
       {"`s` is assigned twice"},
       [](Context&) {
         Tensor s = state("s", {.output = {}, .init = zeros()});
         assign(s, s + 1) & assign(s, s + 2);
       }},
      {"an assignment to what is not state",
       {"only a parameter or a state can be assigned"},
       [](Context&) { assign(data("x", "3"), 1); }},
  });
}

TEST(Refusal, Precision) {
  check<DTypeError>({
      {"a number that overflows its precision", {"70000", "f16"}, [](Context&) { number(70000, DType::f16); }},
      {"an initial value that overflows",
       {"`w`", "f16"},
       [](Context&) { param("w", {.init = constant(1e6), .dtype = DType::f16}); }},
      {"a written value that overflows",
       {"`w`", "f16"},
       [](Context& ctx) { ctx.write(state("w", {.dtype = DType::f16}), Array::scalar(1e6)); }},
      {"a number that is not an integer", {"u8"}, [](Context&) { number(300, DType::u8); }},
      {"ids that are not integers",
       {"gather", "ids", "f32"},
       [](Context&) { gather(data("t", "3->2"), data("ids", "2|")); }},
  });
}

TEST(Refusal, Gradients) {
  check<GradientError>({
      {"a gradient by a tensor the loss does not reach",
       {"`unused`"},
       [](Context&) { grad(sum(param("w", 1.0) * 2), param("unused", 1.0)); }},
  });
}

// What is refused for lack of a size is accepted once the size is given, in the same Context.
TEST(Refusal, GivenItIsAccepted) {
  Context ctx(kHere);
  auto loss = [](const ParamOptions& options, Tensor& b) {
    Tensor w2 = param("w2", options);
    b = param("b");
    return sum(square(w2(data("z", "10|5")) + b - data("target", "10|28,28")));
  };
  Tensor b;
  EXPECT_THROW(ctx.eval(loss({}, b)), ShapeError);
  EXPECT_TRUE(ctx.names().empty());
  ctx.eval(loss({.output = {28, 28}}, b));
  EXPECT_EQ(to_string(ctx.read(b).shape()), "28,28");
  EXPECT_EQ(to_string(ctx.read("w2").shape()), "5->28,28");
}

// A routine that fails while it runs has changed nothing either.
TEST(Refusal, AFailedRunChangesNothing) {
  Context ctx(kHere);
  Index i("i");
  Tensor s = state("s", {.output = {2}, .init = zeros()}), x = data("x", "3|2");
  Routine add = ctx.compile(assign(s, s + x[i]) & observe(s));
  add.run({{i, 2}});
  EXPECT_THROW(add.run({{i, 3}}), StateError);
  EXPECT_EQ(ctx.read(s).values(), (std::vector<double>{4, 5}));
  add.run({{i, 0}});
  EXPECT_EQ(ctx.read(s).values(), (std::vector<double>{4, 6}));
}

}  // namespace
}  // namespace caravan
