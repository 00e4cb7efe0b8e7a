// The headers of codegen/prelude, as they stand: each is compiled by itself, and helpers give what the library's own
// functions give. (math_prelude_test has the elementary functions.)
#include "caravan/codegen/prelude.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "caravan/backend/cuda/compile.h"
#include "caravan/backend/cuda/driver.h"
#include "caravan/base/random.h"
#include "caravan/ops/dtype.h"
#include "temporary_folder.h"

namespace caravan {
namespace {

bool runs(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }
std::string include(std::string_view header) {
  return "#include \"caravan/codegen/prelude/" + std::string(header) + "\"\n";
}

TEST(Prelude, EveryHeaderIsEmbedded) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("caravan/codegen/prelude")) {
    std::ifstream in(entry.path());
    const std::string text(std::istreambuf_iterator<char>(in), {});
    const std::string name = entry.path().filename();
    const auto* file = std::find_if(std::begin(codegen::kPreludeFiles), std::end(codegen::kPreludeFiles),
                                    [&](const codegen::PreludeFile& f) { return f.name == name; });
    ASSERT_NE(file, std::end(codegen::kPreludeFiles)) << name;
    EXPECT_EQ(file->text, text) << name;
    ++files;
  }
  EXPECT_EQ(files, std::size(codegen::kPreludeFiles));
}

TEST(Prelude, EveryHeaderOfCIsCompiledByItself) {
  if (!runs("cc --version")) GTEST_SKIP() << "there is no C compiler `cc` here";
  // The sizes that the schedule chooses for attention, which needs fused multiply-add.
  const std::string attention = " -DCARAVAN_R=6 -DCARAVAN_C=2 -DCARAVAN_W=";
#if defined(__x86_64__)
  const std::vector<std::string> any = {"", "-mavx2 -mfma", "-mavx512f -mfma"},
                                 fused = {"-mfma" + attention + "4", "-mfma" + attention + "8",
                                          "-mavx512f -mfma" + attention + "16"};
#else
  const std::vector<std::string> any = {""}, fused = {attention + "4"};
#endif
  const TemporaryFolder folder;
  const std::string source = folder.path + "/alone.c";
  auto expect_compiled = [&](const std::string& text, const std::vector<std::string>& all_flags) {
    std::ofstream(source) << text;
    for (const std::string& flags : all_flags) {
      const std::string command = "cc -I. -std=gnu99 -O1 -Wall -Wextra -Wno-unused-function -Werror " + flags + " -c " +
                                  source + " -o " + folder.path + "/alone.o";
      EXPECT_EQ(std::system(command.c_str()), 0) << text << ": " << command;
    }
  };
  for (const codegen::PreludeFile& file : codegen::kPreludeFiles)
    if (file.name.ends_with(".h")) expect_compiled(include(file.name), file.name == "attention.h" ? fused : any);
  expect_compiled("#include \"caravan/backend/cc/prelude/peaks.h\"\n", {"-DCARAVAN_VECTOR_BYTES=16 -DCARAVAN_SUMS=12"});
}

TEST(Prelude, HeadersOfCudaAreCompiled) {
  try {
    cuda::nvrtc();
  } catch (const cuda::NoGpuError& error) {
    GTEST_SKIP() << error.what();
  }
  const TemporaryFolder folder;
  std::string text = "#define CARAVAN_RESTRICT __restrict__\n";  // as generated text begins
  const std::string headers[] = {include("cuda.cuh"),    include("product.cuh"),
                                 include("scatter.cuh"), include("attention.cuh"),
                                 include("next.cuh"),    "#include \"caravan/backend/nccl/prelude/combine.cuh\"\n"};
  for (const std::string& header : headers) {
    text += header;
    for (const int compute : {80, 90}) {
      const std::vector<std::string> texts = {text + "extern \"C\" __global__ void caravan_nothing() {}\n"};
      const std::string here = "--include-path=" + std::filesystem::current_path().string();
      EXPECT_EQ(cuda::compile(texts, compute, {.cache = folder.path, .more = {here}}).codes.size(), 1u)
          << header << ", " << compute;
    }
  }
}

// ---------------------------------------------------------------- what helpers compute

// The helpers as functions of a shared library.
class PreludeHelpers : public testing::Test {
 protected:
  void SetUp() override {
    if (!runs("cc --version")) GTEST_SKIP() << "there is no C compiler `cc` here";
    std::ofstream(folder_.path + "/helpers.c")
        << include("convert.h") << include("random.h")
        << "uint8_t to_u8(double x) { return caravan_to_u8(x); }\n"
           "int32_t to_i32(double x) { return caravan_to_i32(x); }\n"
           "int64_t to_i64(double x) { return caravan_to_i64(x); }\n"
           "uint16_t to_f16(double x) { return caravan_to_f16(caravan_odd(x)); }\n"
           "uint16_t to_bf16(double x) { return caravan_to_bf16(caravan_odd(x)); }\n"
           "float from_f16(uint16_t x) { return caravan_from_f16(x); }\n"
           "float from_bf16(uint16_t x) { return caravan_from_bf16(x); }\n"
           "uint32_t word(uint64_t seed, uint64_t name, uint64_t step, uint64_t element, int lane) {\n"
           "  return caravan_random(seed, name, step, element, lane);\n}\n";
    const std::string library = folder_.path + "/helpers.so";
    ASSERT_EQ(
        std::system(
            ("cc -I. -std=gnu99 -O1 -shared -fPIC " + folder_.path + "/helpers.c -o " + library + " -lm").c_str()),
        0);
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  void TearDown() override {
    if (library_) dlclose(library_);
  }
  template <class F>
  F* function(const char* name) const {
    void* found = dlsym(library_, name);
    EXPECT_NE(found, nullptr) << name;
    return std::bit_cast<F*>(found);
  }

 private:
  const TemporaryFolder folder_;
  void* library_ = nullptr;
};

TEST_F(PreludeHelpers, ConversionsAreThoseOfTheRules) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> values = {0,          -0.0,         0.5,           -0.5,      1,      254.9,   255,     256,
                                -1,         2147483647.5, -2147483649.0, 1e10,      0x1p62, 0x1p63,  -0x1p63, 1e300,
                                0.1,        1e-8,         65504,         65519.9,   65520,  0x1p-24, 1e39,    0x1p-25,
                                1 + 0x1p-8, 1 + 0x1p-9,   infinity,      -infinity, nan};
  for (int k = 0; k < 2000; ++k) values.push_back(std::ldexp(1 + k % 97 / 97.0, k % 60 - 30) * (k % 2 ? -1 : 1));
  const auto to_u8 = function<uint8_t(double)>("to_u8");
  const auto to_i32 = function<int32_t(double)>("to_i32");
  const auto to_i64 = function<int64_t(double)>("to_i64");
  const auto narrow_f16 = function<uint16_t(double)>("to_f16"), narrow_bf16 = function<uint16_t(double)>("to_bf16");
  for (const double v : values) {
    EXPECT_EQ(int64_t(to_u8(v)), to_integer(DType::u8, v)) << v;
    EXPECT_EQ(int64_t(to_i32(v)), to_integer(DType::i32, v)) << v;
    EXPECT_EQ(to_i64(v), to_integer(DType::i64, v)) << v;
    if (std::isnan(v)) continue;  // the payload of a NaN is nobody's promise
    EXPECT_EQ(narrow_f16(v), to_f16(v)) << v;
    EXPECT_EQ(narrow_bf16(v), to_bf16(v)) << v;
  }
}
TEST_F(PreludeHelpers, EveryNarrowFloatIsWidenedExactly) {
  const auto wide_f16 = function<float(uint16_t)>("from_f16"), wide_bf16 = function<float(uint16_t)>("from_bf16");
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t h = uint16_t(bits);
    for (const auto& [found, expected] :
         {std::pair(double(wide_f16(h)), from_f16(h)), std::pair(double(wide_bf16(h)), from_bf16(h))})
      ASSERT_TRUE(found == expected || (std::isnan(found) && std::isnan(expected))) << bits;
  }
}
TEST_F(PreludeHelpers, RandomWordsAreThoseOfTheLibrary) {
  const auto word = function<uint32_t(uint64_t, uint64_t, uint64_t, uint64_t, int)>("word");
  for (const uint64_t seed : {uint64_t(0), uint64_t(7), ~uint64_t(0)})
    for (const uint64_t element : {uint64_t(0), uint64_t(1), uint64_t(0x123456789)})
      for (const uint64_t step : {uint64_t(0), uint64_t(3)})
        for (int lane = 0; lane < 4; ++lane)
          EXPECT_EQ(word(seed, hash_name("dropout"), step, element, lane),
                    random_words(seed, hash_name("dropout"), step, element)[size_t(lane)]);
}

}  // namespace
}  // namespace caravan
