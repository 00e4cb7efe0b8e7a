// The compiler used alone: programs from text, over memory of the caller's, against plain loops; and what is refused,
// with a caret.
#include "caravan/jit/jit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "caravan/jit/parse.h"
#include "programs.h"

namespace caravan {
namespace {

using Floats = std::vector<float>;

Floats counting(size_t n, float first = 0) {
  Floats out(n);
  for (size_t i = 0; i < n; ++i) out[i] = first + float(i % 11) - 3;
  return out;
}
const std::string& cache() {
  static const TemporaryFolder folder;
  return folder.path;
}
jit::Kernel compiled(std::string_view text, jit::Buffers buffers = {}) {
  jit::Options options;
  options.cache = cache(), options.buffers = std::move(buffers);
  return jit::compile(text, options);
}

TEST(Jit, AFusedLineOverTheCallersMemory) {
  const Floats a = counting(100, 1), x = counting(100), b = counting(100, -4);
  Floats y(100, 77);
  jit::Kernel k = compiled("y[i] += relu(a[i] * x[i] + b[i])   for i < 100");
  for (int twice = 0; twice < 2; ++twice) {
    k.run({{"a", a.data()}, {"x", x.data()}, {"b", b.data()}, {"y", y.data()}});
    for (size_t i = 0; i < 100; ++i)
      ASSERT_EQ(y[i], std::max(0.f, a[i] * x[i] + b[i])) << i << ": written anew, not added to";
  }
  Floats other(200, 0.f);
  k.run({{"a", a.data()}, {"x", x.data()}, {"b", b.data()}, {"y", other.data() + 1}});  // no alignment but a float's
  EXPECT_TRUE(std::equal(y.begin(), y.end(), other.begin() + 1));
  EXPECT_EQ(other[0], 0);
  EXPECT_EQ(other[101], 0) << "nothing beside it";
}

TEST(Jit, ManyRunsInARow) {
  const Floats a = {2, 9, 100};
  Floats y(3);
  jit::Kernel k = compiled("y[i] += sqrt(a[i])   for i < 3");
  k.run_times(0, {{"a", a.data()}, {"y", y.data()}});
  EXPECT_EQ(y, Floats(3));
  k.run_times(5, {{"a", a.data()}, {"y", y.data()}});
  EXPECT_EQ(y, (Floats{std::sqrt(2.f), 3, 10})) << "written anew each time, not added to";
  EXPECT_THROW(k.run_times(-1, {{"a", a.data()}, {"y", y.data()}}), StateError);
  EXPECT_THROW(k.run_times(1, {{"a", a.data()}}), StateError);
}
TEST(Jit, TheSameBitsOnAnyNumberOfThreads) {
  const Floats a = counting(300 * 200);
  Floats first;
  for (const int threads : {1, 2, 5}) {
    Floats y(300 * 200);
    jit::Options options;
    options.cache = cache(), options.threads = threads;
    jit::compile("y[i, j] += exp(a[i, j] * 0.1) / (1 + a[j, i])   for i < 200, j < 200", options)
        .run({{"a", a.data()}, {"y", y.data()}});
    if (threads == 1) first = y;
    EXPECT_EQ(y, first) << threads << " threads";
  }
}

TEST(Jit, AMatrixProduct) {
  const Floats a = counting(17 * 33), b = counting(33 * 5, 2);
  Floats y(17 * 5);
  compiled("y[i, j] += a[i, k] * b[k, j]   for i < 17, j < 5, k < 33")
      .run({{"a", a.data()}, {"b", b.data()}, {"y", y.data()}});
  for (size_t i = 0; i < 17; ++i)
    for (size_t j = 0; j < 5; ++j) {
      float sum = 0;
      for (size_t k = 0; k < 33; ++k) sum += a[i * 33 + k] * b[k * 5 + j];
      EXPECT_EQ(y[i * 5 + j], sum);  // whole numbers
    }
}

TEST(Jit, SeveralLinesKeepWhatTheyPassOnToThemselves) {
  const Floats x = counting(4 * 6);
  Floats y(4 * 6);
  jit::Kernel softmax = compiled(R"(
    m[i] max= x[i, j]                         for i < 4, j < 6   # against overflow
    s[i] += exp(x[i, j] - m[i])               for i < 4, j < 6

    y[i, j] += exp(x[i, j] - m[i]) / s[i]     for i < 4, j < 6
  )");
  ASSERT_EQ(softmax.buffers().size(), 2u) << "m and s are the kernel's own";
  EXPECT_EQ(softmax.buffers()[0].name, "x");
  EXPECT_EQ(softmax.buffers()[0].sizes, (std::vector<int64_t>{4, 6}));
  EXPECT_FALSE(softmax.buffers()[0].result);
  EXPECT_TRUE(softmax.buffers()[1].result);
  softmax.run({{"x", x.data()}, {"y", y.data()}});
  for (size_t i = 0; i < 4; ++i) {
    double total = 0;
    for (size_t j = 0; j < 6; ++j) total += std::exp(double(x[i * 6 + j]));
    for (size_t j = 0; j < 6; ++j) EXPECT_NEAR(y[i * 6 + j], std::exp(double(x[i * 6 + j])) / total, 1e-6);
  }
}

TEST(Jit, WindowsIdsPositionsAndPrecisions) {
  const Floats x = {5, 1, 4, 2, 8, 7, 3, 6};
  Floats p(4), e(6);
  compiled("p[o] max= x[2*o + k - 1]   for o < 4, k < 3 where 2*o + k - 1 >= 0 and 8 - 2*o - k >= 0")
      .run({{"x", x.data()}, {"p", p.data()}});
  EXPECT_EQ(p, (Floats{5, 4, 8, 7}));

  const std::vector<int32_t> ids = {2, 0, 9};
  const Floats table = {1, 2, 3, 4, 5, 6};
  compiled("e[b, d] += table[ids[b], d]   for b < 3, d < 2", {.sizes = {{"table", {3, 2}}}})
      .run({{"table", table.data()}, {"ids", ids.data()}, {"e", e.data()}});
  EXPECT_EQ(e, (Floats{5, 6, 1, 2, 0, 0})) << "an id out of range contributes nothing";

  std::vector<int32_t> n(2);
  compiled("n[b] argmax= x[b, c]   for b < 2, c < 4 counting c").run({{"x", x.data()}, {"n", n.data()}});
  EXPECT_EQ(n, (std::vector<int32_t>{0, 0}));

  const std::vector<double> wide = {1e-20, 2};
  std::vector<double> sum(1);
  compiled("s += 1e3 * x[i] + 0.5   for i < 2", {.dtypes = {{"x", DType::f64}, {"s", DType::f64}}})
      .run({{"x", wide.data()}, {"s", sum.data()}});
  EXPECT_EQ(sum[0], 1e3 * 1e-20 + 0.5 + 2000.5);
}

// A result is called y.new while it is on its way to y, unless a buffer of the program has this name.
TEST(Jit, ABufferMayHaveTheNameOfANewValue) {
  const Floats x = {1, 2, 3};
  Floats s(1), other(3);
  compiled("s += s.new[i]   for i < 3").run({{"s.new", x.data()}, {"s", s.data()}});
  EXPECT_EQ(s[0], 6);
  compiled("s += x[i]   for i < 3\ns.new[i] += 2 * x[i]   for i < 3")
      .run({{"x", x.data()}, {"s", s.data()}, {"s.new", other.data()}});
  EXPECT_EQ(s[0], 6);
  EXPECT_EQ(other, (Floats{2, 4, 6}));
}

// What the printer prints, the parser reads.
bool same_text(std::string parsed, const std::string& printed) {
  if (const size_t at = parsed.find(".new"); at != std::string::npos) parsed.erase(at, 4);
  return lines_of(parsed) == lines_of(printed);
}
TEST(Jit, ReadsWhatTheProgramsPrint) {
  Tensor x = param("x", {.batch = Extents{}, .input = Extents{}, .output = {4, 9}}),
         w = param("w", {.batch = Extents{}, .input = Extents{}, .output = {9, 3}});
  Tensor ids = input("ids", {.batch = Extents{}, .input = Extents{}, .output = {5}, .dtype = DType::i32}),
         table = param("table", {.input = {7}, .output = {2}});
  const Tensor rows[] = {
      einsum("ij;jk=>ik", x, w),
      relu(x) * 2 - 0.25,
      einmax("i, 2*o<1+k => i, o", x, {{"k", 3}}),
      argmax("ij=>i", x),
      gather(table, ids),
      einsum("ij=>j", x, {{"i <= j"}}),
      where(x > 0.5, exp(x), -x),
      einprod("ij=>", x),
      einsum("i,-j=>j,i", x),
      largest(w),
  };
  int read = 0;
  for (const Tensor& t : rows) {
    const ir::Program p = to_ir(observe(t));
    for (const ir::Accumulation& a : p.accumulations) {
      const std::string text = ir::to_string(p, a);
      jit::Buffers buffers;
      auto describe = [&](ir::BufferId id) {
        const ir::Buffer& b = p.buffers[size_t(id)];
        buffers.sizes[b.name] = b.shape.sizes(), buffers.dtypes[b.name] = b.dtype;
      };
      describe(a.target);
      for (const ir::Operand& o : a.operands) describe(o.buffer);
      try {
        const ir::Program q = jit::parse_program(text, buffers);
        ASSERT_EQ(q.accumulations.size(), 1u);
        EXPECT_TRUE(same_text(ir::to_string(q, q.accumulations[0]), text)) << text << "\nread as\n"
                                                                           << ir::to_string(q, q.accumulations[0]);
        EXPECT_EQ(q.accumulations[0].extents, a.extents) << text;
        EXPECT_EQ(q.accumulations[0].where, a.where) << text;
        EXPECT_EQ(q.accumulations[0].write, a.write) << text;
        ++read;
      } catch (const SpecError& error) {
        ADD_FAILURE() << text << "\n" << error.what();
      }
    }
  }
  EXPECT_GE(read, 12);
}

TEST(Jit, RefusesWithACaretUnderTheColumn) {
  struct Row {
    const char *text, *problem, *marked;  // the caret stands under the first character of `marked`, or behind the line
  };
  const Row rows[] = {
      {"y[i] += a[i] * x[j]   for i < 8", "`j` is no iterator of this line", "j]"},
      {"y[i] = a[i]   for i < 8", "expected one of +=", "= a"},
      {"y[i] += a[i   for i < 8", "expected `]`", "for"},
      {"y[i] += a[i]   for i 8", "expected `<`", "8"},
      {"y[i] += a[i]   for i < x", "the number of values of `i`", "x"},
      {"y[i] += a[i]   for i < 8, i < 3", "`i` stands here twice", "i < 3"},
      {"y[i] += a[i] +   for i < 8", "expected a number, an operand or a function", "for"},
      {"y[i] += sine(a[i])   for i < 8", "no op `sine`", "sine"},
      {"y[i] += a[i]   for i < 8 whenever i", "expected `where`, `counting` or the end", "whenever"},
      {"y[i] += a[i] + a[i, i]   for i < 8", "`a` has 2 indices here and 1 before", "a[i, i]"},
      {"y[i] += y[i]   for i < 8", "cannot read what it writes", "y[i]   for"},
      {"n[b] argmax= x[b, c]   for b < 2, c < 4", "Add `counting ..`", "argmax="},
      {"y[i] += table[ids[i]]   for i < 8", "the size of `table` depends on ids", "table"},
      {"y[i] += x[i - 1]   for i < 8",
       "this line cannot be run: accumulation of `y` reads `x` out of range: the index i - 1 of axis 0 goes down to -1 "
       "and no condition of the domain prevents it.",
       "y"},
      {"2y += 1", "expected the name of what is written", "2y"},
      {"y # x", "expected one of +=", "# x"},
      {"y[i] # x", "`i` is no iterator of this line", "i] #"},
      {"y[i] # x   for i < 8", "`i` is no iterator of this line", "i] #"},
      {"y[i] += a[i] $ 3   for i < 8", "expected an operator", "$"},
      {"y[i] += a[i, column - 1] $   for i < 8, column < 3 where column - 1 >= 0", "expected an operator", "$"},
      {"y[i] += a[9223372036854775807*i]   for i < 8", "at most 2^40", "*i]"},
      {"y[i] += a[i + 1099511627776 + 1099511627776]   for i < 8", "at most 2^40", "]   for"},
      {"y[i] += a[1099511627776*i + i]   for i < 8", "at most 2^40", "]   for"},
      {"y[i] += a[i]   for i < 1099511627777", "at most 2^40", ""},
      {"y += a[i] + b[j]   for i < 1099511627776, j < 1099511627776", "more points than can be counted", "y"},
  };
  for (const Row& row : rows) {
    try {
      jit::parse_program(row.text);
      ADD_FAILURE() << row.text << ": not refused";
    } catch (const SpecError& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find(row.problem), std::string::npos) << what;
      const std::string text = row.text, column(*row.marked ? text.find(row.marked) : text.size(), ' ');
      EXPECT_NE(what.find("\n  " + std::string(row.text) + "\n  " + column + "^"), std::string::npos)
          << row.text << ":\n"
          << what;
    }
  }
  EXPECT_THROW(jit::parse_program("# nothing\n"), SpecError);
  EXPECT_EQ(jit::parse_program("y[i] += x[i]   for i < 2\r\n\r\n").accumulations.size(), 1u)
      << "lines may end with CRLF";
  EXPECT_THROW(jit::parse_program("y[i] += t[i]   for i < 2", {.sizes = {{"t", {INT64_MAX}}}}), SpecError)
      << "its bytes cannot be counted";
  EXPECT_THROW(jit::parse_program("y[i] += x[i] for i < 2\ny[i] += x[i] for i < 2"), SpecError);
  EXPECT_THROW(jit::parse_program("z[i] += y[i] for i < 2\ny[i] += x[i] for i < 2"), SpecError)
      << "read before it is written";
  EXPECT_THROW(jit::parse_program("y[i] += x[i] for i < 2", {.sizes = {{"q", {2}}}}), SpecError);
  EXPECT_THROW(jit::parse_program("y[i] += x[i] for i < 2", {.sizes = {{"x", {1}}}}), SpecError) << "too small";
}

// Each of these would exhaust the stack of a parser that follows them all the way down.
TEST(Jit, RefusesWhatIsNestedTooDeeply) {
  auto refused = [](const std::string& body) -> std::string {
    try {
      jit::parse_program("y[i] += " + body + "   for i < 8");
    } catch (const SpecError& error) {
      EXPECT_LT(std::string(error.what()).size(), 1000u);
      return error.what();
    }
    return "";
  };
  auto repeated = [](const std::string& text, size_t n) {
    std::string out;
    for (size_t k = 0; k < n; ++k) out += text;
    return out;
  };
  struct Row {
    std::string open, inner, close;
  };
  for (const auto& [open, inner, close] : {Row{"(", "x[i]", ")"},
                                           {"-", "x[i]", ""},
                                           {"exp(", "x[i]", ")"},
                                           {"1 + 2 * (", "x[i]", ")"},
                                           {"max(1, ", "x[i]", ")"}}) {
    EXPECT_EQ(refused(repeated(open, 200) + inner + repeated(close, 200)), "") << open;
    EXPECT_NE(refused(repeated(open, 50'000) + inner + repeated(close, 50'000))
                  .find("more than 200 parentheses, calls and signs are nested; compute a part of it by itself"),
              std::string::npos)
        << open;
  }
  EXPECT_NE(refused("x[" + repeated("a[", 50'000) + "i" + repeated("]", 50'001))
                .find("more than 50 buffers of ids are nested"),
            std::string::npos);
  EXPECT_EQ(refused("x[i]" + repeated(" + x[i]", 2'000)), "") << "a long sum is not deep";
}

TEST(Jit, RefusesMemoryThatDoesNotFit) {
  Floats x(4), y(4);
  std::vector<double> wide(4);
  jit::Kernel k = compiled("y[i] += x[i]   for i < 4");
  auto refused = [&](std::initializer_list<jit::Binding> memory, const char* phrase) {
    try {
      k.run(memory);
      ADD_FAILURE() << "not refused: " << phrase;
    } catch (const StateError& error) {
      EXPECT_NE(std::string(error.what()).find(phrase), std::string::npos) << error.what();
    }
  };
  refused({{"y", y.data()}}, "`x` is not bound");
  refused({{"x", x.data()}, {"y", wide.data()}}, "`y` is bound to memory of f64, but the kernel was compiled for f32");
  refused({{"x", x.data()}, {"y", y.data()}, {"z", y.data()}}, "no buffer `z`");
  refused({{"x", static_cast<float*>(nullptr)}, {"y", y.data()}}, "`x` is not bound");
}

}  // namespace
}  // namespace caravan
