// Every assigned or observed leaf gets a buffer of its own.
#include "caravan/optimize/copy_leaves.h"

#include <gtest/gtest.h>

#include "pass_table.h"

namespace caravan::optimize {
namespace {

TEST(CopyLeaves, GivesEveryRootABufferOfItsOwn) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    const char* after;
  };
  const Row rows[] = {
      {"a state that another gets", [] { return assign(parameter("a", "3"), parameter("b", "3")); }, R"(
copy of b 2[i0] += b[i0]   for i0 < 3
a := copy of b 2
)"},
      {"a swap",
       [] {
         Tensor a = parameter("a", "3"), b = parameter("b", "3");
         return assign(a, b) & assign(b, a);
       },
       R"(
copy of b 2[i0] += b[i0]   for i0 < 3
copy of a 3[i0] += a[i0]   for i0 < 3
a := copy of b 2
b := copy of a 3
)"},
      {"an observed number", [] { return observe(number(2, DType::f64)); }, R"(
copy of 2 1 += 2
)"},
      {"another precision than the state's",
       [] { return assign(parameter("a", "2"), cast(parameter("b", "2"), DType::f64).named("wide")); }, R"(
wide[o0] += f64(b[o0])   for o0 < 2
copy of wide 3[i0] += f32(wide[i0])   for i0 < 2
a := copy of wide 3
)"},
      {"a computed value is left alone", [] { return observe((parameter("a", "2") + 1).named("y")); }, R"(
y[o0] += a[o0] + 1   for o0 < 2
)"},
  };
  for (const Row& row : rows) {
    const ir::Program after = copy_leaves(to_ir(row.program()));
    ir::verify(after);
    EXPECT_EQ(body_of(after), trimmed(row.after)) << row.name;
  }
}

}  // namespace
}  // namespace caravan::optimize
