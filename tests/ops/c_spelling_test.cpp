// How ops are written in C.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "caravan/ops/table.h"
#include "ops/formulas.h"

namespace caravan {
namespace {

// The C spellings, compiled by the system's compiler, give what `eval` gives.
class CSpelling : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::temp_directory_path() / ("caravan_ops_" + std::to_string(std::random_device{}()));
    std::filesystem::create_directories(folder_);
    std::ofstream out(folder_ / "ops.c");
    out << "#include <tgmath.h>\n#include <stdint.h>\n";
    for (const auto& [type, suffix] :
         {std::pair{"double", "f64"}, {"float", "f32"}, {"int32_t", "i32"}, {"uint8_t", "u8"}})
      for (const OpRow& row : op_rows()) {
        const bool integer = std::string(suffix) == "i32" || std::string(suffix) == "u8";
        if (integer && row.result == ResultType::real) continue;
        out << "#define T " << type << "\nT " << row.name << "__" << suffix << "(T a, T b, T c) { return "
            << (integer && !row.c_integer.empty() ? row.c_integer : row.c) << "; }\n#undef T\n";
      }
    out.close();
    const std::string library = (folder_ / "ops.so").string();
    const std::string command =
        "cc -O1 -w -fwrapv -ffp-contract=off -shared -fPIC -o " + library + " " + (folder_ / "ops.c").string() + " -lm";
    if (std::system("cc --version >/dev/null 2>&1") == 0) {
      ASSERT_EQ(std::system(command.c_str()), 0) << command;
      library_ = dlopen(library.c_str(), RTLD_NOW);
      ASSERT_NE(library_, nullptr) << dlerror();
    }
  }
  static void TearDownTestSuite() {
    if (library_) dlclose(library_);
    library_ = nullptr;
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override {
    if (!library_) GTEST_SKIP() << "there is no C compiler `cc` here";
  }
  template <class T>
  T call(const OpRow& row, const char* suffix, T a, T b, T c) {
    void* function = dlsym(library_, (std::string(row.name) + "__" + suffix).c_str());
    EXPECT_NE(function, nullptr) << row.name;
    return function ? reinterpret_cast<T (*)(T, T, T)>(function)(a, b, c) : T();
  }

  static inline std::filesystem::path folder_;
  static inline void* library_ = nullptr;
};

TEST_F(CSpelling, OfFloatsGivesTheEvaluation) {
  std::vector<double> points = {0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -2.5, 3, 80, -80, kInf, -kInf, kNaN};
  for (const OpRow& row : op_rows())
    for (double a : points)
      for (double b : points)
        for (double c : points) {
          const double expected = row.eval(a, b, c), got = call<double>(row, "f64", a, b, c);
          ASSERT_TRUE(std::isnan(expected) ? std::isnan(got)
                                           : got == expected || std::abs(got - expected) <= 1e-15 * std::abs(expected))
              << row.name << "(" << a << ", " << b << ", " << c << ") is " << expected << ", in C " << got;
          const double got32 = double(call<float>(row, "f32", float(a), float(b), float(c)));
          const double expected32 = convert(DType::f32, expected);
          ASSERT_TRUE(std::isnan(expected32)
                          ? std::isnan(got32)
                          : got32 == expected32 || std::abs(got32 - expected32) <= 1e-5 * std::abs(expected32) + 1e-6)
              << row.name << "(" << a << ", " << b << ", " << c << ") is " << expected32 << ", in C with floats "
              << got32;
        }
}

TEST_F(CSpelling, OfIntegersGivesTheEvaluation) {
  const std::vector<int32_t> points = {0, 1, -1, 2, -2, 7, -7, 1000, -1000, 46341, 2147483647, -2147483647 - 1};
  for (const OpRow& row : op_rows()) {
    if (row.result == ResultType::real) continue;
    for (int32_t a : points)
      for (int32_t b : points)
        for (int32_t c : points) {
          const double exact = row.eval(a, b, c);
          if (can_hold(DType::i32, exact) || std::isnan(exact)) {
            ASSERT_EQ(call<int32_t>(row, "i32", a, b, c), convert(DType::i32, exact))
                << row.name << "(" << a << ", " << b << ", " << c << ")";
          }
          const uint8_t u = uint8_t(a), v = uint8_t(b), w = uint8_t(c);
          const double small = row.eval(u, v, w);
          if (can_hold(DType::u8, small) || std::isnan(small)) {
            ASSERT_EQ(call<uint8_t>(row, "u8", u, v, w), convert(DType::u8, small))
                << row.name << "(" << +u << ", " << +v << ", " << +w << ")";
          }
        }
  }
}

}  // namespace
}  // namespace caravan
