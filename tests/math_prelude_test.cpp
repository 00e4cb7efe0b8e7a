// The elementary functions of generated kernels: as accurate as their text promises, with C's special values, and of
// the same bits whether the compiler makes vectors of them or not. What is compiled is prelude/math.h as it stands.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace caravan {
namespace {

// One row per function; binary functions have `f2` and `l2`. Bounds are in ULP, ranges where the sweep is uniform.
struct Row {
  const char* name;
  double bound_f32, bound_f64;
  double low, high;  // of the uniform sweep
  double (*f1)(double);
  long double (*l1)(long double);
  double limit_f32 = INFINITY, limit_f64 = INFINITY;  // |x| up to which the bound holds
  double (*f2)(double, double) = nullptr;
  long double (*l2)(long double, long double) = nullptr;
};
const Row kRows[] = {
    {"exp", 1.0, 1.0, -110, 90, std::exp, std::exp},
    {"exp2", 1.0, 1.1, -150, 130, std::exp2, std::exp2},
    {"expm1", 1.6, 1.7, -20, 20, std::expm1, std::expm1},
    {"log", 1.0, 1.0, 0, 4, std::log, std::log},
    {"log2", 1.0, 1.0, 0, 4, std::log2, std::log2},
    {"log1p", 1.5, 1.5, -1, 4, std::log1p, std::log1p},
    {"sin", 1.4, 1.0, -100, 100, std::sin, std::sin, 1.6e6, 1e9},
    {"cos", 1.4, 1.0, -100, 100, std::cos, std::cos, 1.6e6, 1e9},
    {"tan", 0.6, 2.5, -100, 100, std::tan, std::tan, 1.6e6, 1e9},
    {"tanh", 1.8, 1.8, -10, 10, std::tanh, std::tanh},
    {"erf", 1.3, 1.5, -6, 6, std::erf, std::erf},
    {"atan2", 0.6, 2.5, -10, 10, nullptr, nullptr, INFINITY, INFINITY, std::atan2, std::atan2},
    {"pow", 0.6, 1.3, 0, 20, nullptr, nullptr, INFINITY, INFINITY, std::pow, std::pow},
};

template <class T>
constexpr const char* kSuffix = sizeof(T) == 4 ? "f32" : "f64";
template <class T>
using Loop = void (*)(T* out, const T* a, const T* b, long n);
template <class T>
using Words = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
template <class T>
T of_bits(Words<T> u) {
  return std::bit_cast<T>(u);
}

std::string driver() {
  std::string text = "#include \"caravan/codegen/prelude/math.h\"\n";
  for (const Row& row : kRows)
    for (std::string type : {"float", "double"}) {
      std::string name = std::string(row.name) + (type == "float" ? "_f32" : "_f64");
      text += "void loop_" + name + "(" + type + "* restrict out, const " + type + "* restrict a, const " + type +
              "* restrict b, long n) {\n  (void)b;\n  for (long i = 0; i < n; ++i) out[i] = caravan_" + name +
              (row.f2 ? "(a[i], b[i]);\n}\n" : "(a[i]);\n}\n");
    }
  return text;
}

bool runs(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

// The driver, compiled in the ways whose results must agree.
struct Build {
  std::string how;
  void* library;
  template <class T>
  Loop<T> loop(const Row& row) const {
    void* f = dlsym(library, (std::string("loop_") + row.name + "_" + kSuffix<T>).c_str());
    EXPECT_NE(f, nullptr) << how;
    return std::bit_cast<Loop<T>>(f);
  }
};
class MathPrelude : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!runs("cc --version")) return;
    std::string folder = (std::filesystem::temp_directory_path() / "caravan_math_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    std::ofstream(folder + "/math.c") << driver();
    const std::string flags =
        " -I. -std=c99 -Wall -Wextra -Wno-unused-function -Werror -march=native -ffp-contract=off -fno-math-errno "
        "-fno-trapping-math -fwrapv -shared -fPIC ";
    std::vector<std::string> compilers = {"cc -O3", "cc -O1 -fno-tree-vectorize"};
    if (runs("clang --version")) compilers.push_back("clang -O3");
    for (const std::string& compiler : compilers) {
      std::string library = folder + "/" + std::to_string(builds_.size()) + ".so";
      std::string command = compiler + flags + folder + "/math.c -o " + library + " -lm";
      ASSERT_EQ(std::system(command.c_str()), 0) << command;
      void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
      ASSERT_NE(handle, nullptr) << dlerror();
      builds_.push_back({compiler, handle});
    }
    std::filesystem::remove_all(folder);
  }
  static void TearDownTestSuite() {
    for (const Build& build : builds_) dlclose(build.library);
    builds_.clear();
  }
  void SetUp() override {
    if (builds_.empty()) GTEST_SKIP() << "no C compiler named cc";
  }

  template <class T>
  static T call(const char* name, T a, T b = 0) {
    T out = 0;
    for (const Row& row : kRows)
      if (!std::strcmp(row.name, name)) builds_[0].loop<T>(row)(&out, &a, &b, 1);
    return out;
  }
  static std::vector<Build> builds_;
};
std::vector<Build> MathPrelude::builds_;

// Points that reach every exponent (by bits) and fill the useful range (uniformly).
template <class T>
std::vector<T> points(const Row& row, uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(row.low, row.high), unit(-1, 1);
  std::vector<T> x;
  x.reserve(count);
  Words<T> bits = Words<T>(random()), step = Words<T>(sizeof(T) == 4 ? 8191 : 0x9e3779b97f4a7c15u);
  for (; x.size() < count / 2; bits = Words<T>(bits + step)) x.push_back(of_bits<T>(bits));
  while (x.size() < count * 7 / 8) x.push_back(T(uniform(random)));
  if (std::isfinite(row.limit_f32))
    while (x.size() < count) x.push_back(T(unit(random) * (sizeof(T) == 4 ? row.limit_f32 : row.limit_f64)));
  while (x.size() < count) x.push_back(T(row.f2 ? 1 + unit(random) * 1e-3 : unit(random)));
  return x;
}

// The distance in units in the last place of T about `want`.
template <class T, class Wide>
double ulps(T got, Wide want) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(want)) return got == T(want) ? 0 : INFINITY;
  // An infinity stands for the first number beyond the largest; results far beyond it need no better.
  Wide edge = std::ldexp(Wide(1), Limits::max_exponent);
  if (std::isinf(got) && std::fabs(want) >= edge) return std::signbit(got) == std::signbit(want) ? 0 : INFINITY;
  Wide value = std::isinf(got) ? std::copysign(edge, Wide(got)) : Wide(got);
  int exponent = want == 0 ? Limits::min_exponent - 1 : std::max(std::ilogb(want), Limits::min_exponent - 1);
  return double(std::fabs(value - want) / std::ldexp(Wide(1), exponent + 1 - Limits::digits));
}

// Every function over its points, as each build computes it: check(row, a, b, outputs by build).
template <class T, class Check>
void sweep(const std::vector<Build>& builds, size_t count, Check&& check) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(std::string(row.name) + "_" + kSuffix<T>);
    std::vector<T> a = points<T>(row, 1, count), b = points<T>(row, 2, count);
    if (row.f2) {  // pair points of each kind with those of every other
      std::mt19937_64 random(3);
      std::shuffle(b.begin(), b.end(), random);
    }
    std::vector<std::vector<T>> out;
    for (const Build& build : builds) {
      out.emplace_back(count);
      build.loop<T>(row)(out.back().data(), a.data(), b.data(), long(count));
    }
    check(row, a, b, out);
  }
}

template <class T>
void same_bits(const std::vector<Build>& builds, size_t count) {
  sweep<T>(builds, count, [&](const Row& row, const auto& a, const auto& b, const auto& out) {
    for (size_t j = 1; j < out.size(); ++j)
      for (size_t i = 0; i < a.size(); ++i) {
        if (std::bit_cast<Words<T>>(out[0][i]) == std::bit_cast<Words<T>>(out[j][i])) continue;
        if (std::isnan(out[0][i]) && std::isnan(out[j][i])) continue;  // which NaN is the processor's choice
        ADD_FAILURE() << row.name << " of " << std::hexfloat << a[i] << ", " << b[i] << ": " << out[0][i] << " by "
                      << builds[0].how << ", " << out[j][i] << " by " << builds[j].how;
        break;
      }
  });
}
TEST_F(MathPrelude, VectorsAndScalarsAgreeToTheBit) {
  same_bits<float>(builds_, 1 << 20);
  same_bits<double>(builds_, 1 << 18);
}

template <class T, class Wide>
void accurate(const std::vector<Build>& builds, size_t count) {
  constexpr bool single = sizeof(T) == 4;
  sweep<T>({builds[0]}, count, [&](const Row& row, const auto& a, const auto& b, const auto& out) {
    double bound = single ? row.bound_f32 : row.bound_f64, limit = single ? row.limit_f32 : row.limit_f64, worst = 0;
    bool flushes = single && (!std::strcmp(row.name, "exp") || !std::strcmp(row.name, "exp2"));
    bool bounded = !std::strcmp(row.name, "tanh") || !std::strcmp(row.name, "erf");
    size_t where = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      T got = out[0][i];
      if (std::isfinite(a[i]) && std::fabs(a[i]) > limit) {
        if (std::strcmp(row.name, "tan") && !(std::fabs(got) <= 1)) worst = INFINITY, where = i;
        continue;
      }
      Wide want;
      if constexpr (single) {
        want = row.f2 ? row.f2(a[i], b[i]) : row.f1(a[i]);
      } else {
        want = row.f2 ? row.l2(a[i], b[i]) : row.l1(a[i]);
      }
      if (flushes && want < Wide(std::numeric_limits<T>::min()) && got == 0) continue;
      double error = ulps<T>(got, want);
      if (bounded && std::fabs(got) > 1) error = INFINITY;
      if (error > worst) worst = error, where = i;
    }
    if (std::getenv("CARAVAN_MATH_TABLE"))
      std::printf("%-6s %s %.3f ulp at %a, %a\n", row.name, kSuffix<T>, worst, double(a[where]), double(b[where]));
    EXPECT_LE(worst, bound) << std::hexfloat << "at " << a[where] << ", " << b[where] << ": " << out[0][where];
  });
}
TEST_F(MathPrelude, F32IsAsAccurateAsPromised) { accurate<float, double>(builds_, 1 << 20); }
TEST_F(MathPrelude, F64IsAsAccurateAsPromised) { accurate<double, long double>(builds_, 1 << 18); }

template <class T>
bool same(T a, T b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

// Values that must come out exactly, the sign of zero included.
template <class T, class Call>
void specials(Call&& call) {
  const T inf = INFINITY, nan = NAN, tiny = std::numeric_limits<T>::denorm_min(), huge = std::numeric_limits<T>::max();
  struct Case {
    const char* name;
    T x, want;
  };
  const Case cases[] = {
      {"exp", 0, 1},
      {"exp", T(-0.0), 1},
      {"exp", inf, inf},
      {"exp", -inf, 0},
      {"exp", nan, nan},
      {"exp", huge, inf},
      {"exp", -huge, 0},
      {"exp", tiny, 1},
      {"exp2", 0, 1},
      {"exp2", 10, 1024},
      {"exp2", -3, T(0.125)},
      {"exp2", inf, inf},
      {"exp2", -inf, 0},
      {"exp2", nan, nan},
      {"exp2", huge, inf},
      {"exp2", -huge, 0},
      {"expm1", 0, 0},
      {"expm1", T(-0.0), T(-0.0)},
      {"expm1", inf, inf},
      {"expm1", -inf, -1},
      {"expm1", nan, nan},
      {"expm1", tiny, tiny},
      {"expm1", -tiny, -tiny},
      {"expm1", huge, inf},
      {"expm1", -huge, -1},
      {"log", 0, -inf},
      {"log", T(-0.0), -inf},
      {"log", 1, 0},
      {"log", -1, nan},
      {"log", -inf, nan},
      {"log", inf, inf},
      {"log", nan, nan},
      {"log", -tiny, nan},
      {"log", tiny, T(std::log((long double)tiny))},
      {"log2", 0, -inf},
      {"log2", T(-0.0), -inf},
      {"log2", 1, 0},
      {"log2", 8, 3},
      {"log2", T(0.25), -2},
      {"log2", -1, nan},
      {"log2", -inf, nan},
      {"log2", inf, inf},
      {"log2", nan, nan},
      {"log2", tiny, T(std::log2((long double)tiny))},
      {"log1p", 0, 0},
      {"log1p", T(-0.0), T(-0.0)},
      {"log1p", -1, -inf},
      {"log1p", -2, nan},
      {"log1p", -inf, nan},
      {"log1p", inf, inf},
      {"log1p", nan, nan},
      {"log1p", tiny, tiny},
      {"log1p", -tiny, -tiny},
      {"log1p", huge, T(std::log((long double)huge))},
      {"sin", 0, 0},
      {"sin", T(-0.0), T(-0.0)},
      {"sin", inf, nan},
      {"sin", -inf, nan},
      {"sin", nan, nan},
      {"sin", tiny, tiny},
      {"sin", -tiny, -tiny},
      {"cos", 0, 1},
      {"cos", T(-0.0), 1},
      {"cos", inf, nan},
      {"cos", -inf, nan},
      {"cos", nan, nan},
      {"cos", tiny, 1},
      {"tan", 0, 0},
      {"tan", T(-0.0), T(-0.0)},
      {"tan", inf, nan},
      {"tan", -inf, nan},
      {"tan", nan, nan},
      {"tan", tiny, tiny},
      {"tan", -tiny, -tiny},
      {"tanh", 0, 0},
      {"tanh", T(-0.0), T(-0.0)},
      {"tanh", inf, 1},
      {"tanh", -inf, -1},
      {"tanh", nan, nan},
      {"tanh", tiny, tiny},
      {"tanh", -tiny, -tiny},
      {"tanh", huge, 1},
      {"tanh", 30, 1},
      {"erf", 0, 0},
      {"erf", T(-0.0), T(-0.0)},
      {"erf", inf, 1},
      {"erf", -inf, -1},
      {"erf", nan, nan},
      {"erf", huge, 1},
      {"erf", -huge, -1},
      {"erf", 6, 1},
      {"erf", tiny, tiny},
  };
  for (const Case& c : cases) {
    T got = call(c.name, c.x, T(0));
    EXPECT_TRUE(same(got, c.want)) << c.name << "(" << c.x << ") = " << got << ", not " << c.want;
  }
  // Of two arguments: C's own are the reference, for every pair of notable numbers.
  const T notable[] = {0,   T(-0.0), 1,   -1,   2,     -2,   3,     -3,      T(0.5),   T(-0.5),  T(1.5),   T(-1.5),
                       inf, -inf,    nan, tiny, -tiny, huge, -huge, T(1e30), T(-1e30), 16777215, -16777215};
  for (T x : notable)
    for (T y : notable)
      for (const char* name : {"pow", "atan2"}) {
        long double wide =
            name[0] == 'p' ? std::pow((long double)x, (long double)y) : std::atan2((long double)x, (long double)y);
        T got = call(name, x, y), want = T(wide);
        bool exact = !std::isfinite(want) || want == 0;
        EXPECT_TRUE(exact ? same(got, want) : ulps<T>(got, wide) <= 1.5)
            << name << "(" << x << ", " << y << ") = " << got << ", not " << want;
      }
}
TEST_F(MathPrelude, SpecialValuesAreThoseOfC) {
  specials<float>([](const char* name, float a, float b) { return call<float>(name, a, b); });
  specials<double>([](const char* name, double a, double b) { return call<double>(name, a, b); });
}

// The promise that makes the functions worth having: gcc makes vectors of every one of them.
TEST_F(MathPrelude, GccVectorisesEveryLoop) {
  if (!runs("cc --version | grep -q 'Free Software Foundation'")) GTEST_SKIP() << "cc is not gcc";
  if (!runs("cc -dumpversion | grep -qx 12"))
    GTEST_SKIP() << "the functions were written with GCC 12, and others may see fewer vectors";
  if (!runs("echo | cc -march=native -dM -E - | grep -q __SSE4_1__")) GTEST_SKIP() << "no vector rounding here";
  std::string file = (std::filesystem::temp_directory_path() / "caravan_math_XXXXXX").string();
  int handle = mkstemp(file.data());
  ASSERT_GE(handle, 0);
  std::ofstream(file) << driver();
  std::string command =
      "cc -x c -I. -std=c99 -O3 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math -fwrapv "
      "-fopt-info-vec-optimized -c -o /dev/null " +
      file + " 2>&1 | grep -o '[0-9]*:[0-9]*: optimized: loop vectorized' | sort -u | wc -l";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  size_t lines = 0;
  EXPECT_EQ(std::fscanf(pipe, "%zu", &lines), 1);
  pclose(pipe);
  std::filesystem::remove(file);
  EXPECT_EQ(lines, 2 * std::size(kRows));
}

}  // namespace
}  // namespace caravan
