// The self-test of the C compiler: the real one passes it, and compilers that are made to be wrong are used with the
// flags that help, or refused.
#include <gtest/gtest.h>

#include <sstream>

#include "caravan/backend/cc/device.h"
#include "caravan/backend/cc/find_compiler.h"
#include "caravan/backend/cc/self_test.h"
#include "programs.h"
#include "wrong_compiler.h"

namespace caravan {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Task four_rows() {
  Array x(parse_shape("4,4"));
  for (int64_t e = 0; e < x.size(); ++e) x.set(e, double(e + 1));
  return task_of(observe(einsum("i, j => i", tensor(x))));
}

class Compiler : public testing::Test {
 protected:
  void SetUp() override {
    if (cc::path_of("cc").empty()) GTEST_SKIP() << "there is no C compiler `cc` here";
  }
};

TEST_F(Compiler, OfTheSystemPasses) {
  const TemporaryFolder folder;
  cc::CompilerOptions options;
  options.cache = folder.path;
  const cc::SelfTest test = cc::self_test(options);
  EXPECT_TRUE(test.passed);
  EXPECT_EQ(test.wrong, std::vector<std::string>{});
  EXPECT_EQ(test.added, std::vector<std::string>{});
  EXPECT_GE(test.loops, 10);
  EXPECT_EQ(cc::tested(options).flags, options.flags);
  EXPECT_EQ(cc::compiler_problem(options), "");
}

TEST_F(Compiler, WithAWrongVectoriserIsCalledWithoutIt) {
  const WrongCompiler wrong("-fno-tree-vectorize");
  const cc::SelfTest test = cc::self_test(wrong.options());
  EXPECT_TRUE(test.passed);
  EXPECT_GE(test.wrong.size(), 5u);
  ASSERT_FALSE(test.wrong.empty());
  EXPECT_EQ(test.wrong[0], "a sum of rows read backwards in f32");
  EXPECT_EQ(test.added[0], "-fno-tree-vectorize");
  EXPECT_EQ(cc::compiler_problem(wrong.options()), "");

  cc::DeviceOptions device;
  device.compiler = wrong.options();
  EXPECT_EQ(run_on(*cc::make_device(device), four_rows()).observed[0].values(), (std::vector<double>{10, 26, 42, 58}));
}

TEST_F(Compiler, IsTriedWithLessOptimisationInSteps) {
  EXPECT_EQ(cc::self_test(WrongCompiler("-O2").options()).added[0], "-O2");
  EXPECT_EQ(cc::self_test(WrongCompiler("-O1").options()).added[0], "-O1");
}

TEST_F(Compiler, ThatIsNeverRightIsRefused) {
  const WrongCompiler wrong("never");
  EXPECT_FALSE(cc::self_test(wrong.options()).passed);
  const std::string problem = cc::compiler_problem(wrong.options());
  EXPECT_TRUE(contains(problem, "test loops wrongly (a sum of rows read backwards in f32, ")) << problem;
  EXPECT_TRUE(contains(problem, "install another one")) << problem;
  cc::DeviceOptions device;
  device.compiler = wrong.options();
  try {
    run_on(*cc::make_device(device), four_rows());
    ADD_FAILURE() << "not refused";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.what(), problem + ".");
  }
}

TEST_F(Compiler, IsNotCalledAgainByTheNextProcess) {
  const WrongCompiler wrong("-O1");
  wrong.caravan("train linear --steps 2 --quiet");
  const size_t calls = wrong.calls();
  EXPECT_GE(calls, 5u);  // four sets of flags, one program
  wrong.caravan("train linear --steps 2 --quiet");
  EXPECT_EQ(wrong.calls(), calls);
}

// The words of a text that is broken into lines.
std::string in_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  for (std::string word; words >> word;) out += word + " ";
  return out;
}

TEST_F(Compiler, ThatIsWrongIsToldByDoctorAndLeftByAuto) {
  const WrongCompiler helped("-fno-tree-vectorize"), never("never");
  EXPECT_TRUE(contains(in_one_line(helped.caravan("doctor")),
                       "called with -fno-tree-vectorize -fno-tree-slp-vectorize, without which "));
  const std::string refused = never.caravan("doctor");
  EXPECT_TRUE(contains(refused, "cpu      no     the C compiler `cc` computes ")) << refused;
  const std::string trained = never.caravan("train linear --steps 2");
  EXPECT_TRUE(contains(trained, "test loops wrongly")) << trained;
  EXPECT_TRUE(contains(trained, "interp")) << trained;
}

}  // namespace
}  // namespace caravan
