// What is stored is not computed again.
#include "caravan/optimize/reuse_stored.h"

#include <gtest/gtest.h>

#include "caravan/optimize/inline_producers.h"
#include "pass_table.h"

namespace caravan::optimize {
namespace {

TEST(ReuseStored, BeforeAndAfter) {
  const std::vector<Rewrite> rows = {
      {"the gradient of tanh reads its value",
       [] {
         Tensor a = parameter("a", "3,4"), t = tanh(a).named("t");
         return observe({t, grad(einsum("i, j =>", t), a).named("d")});
       },
       R"(
t[o0, o1] += tanh(a[o0, o1])   for o0 < 3, o1 < 4
d[o0, o1] += f32(1) * (1 - square(tanh(a[o0, o1])))   for o0 < 3, o1 < 4
)",
       R"(
t[o0, o1] += tanh(a[o0, o1])   for o0 < 3, o1 < 4
d[o0, o1] += f32(1) * (1 - square(t[o0, o1]))   for o0 < 3, o1 < 4
)"},
      {"axes in another order",
       [] {
         Tensor a = parameter("a", "3,4");
         return observe({exp(a).named("e"), (einsum("i, j => j, i", exp(a)) + 1).named("y")});
       },
       R"(
e[o0, o1] += exp(a[o0, o1])   for o0 < 3, o1 < 4
y[o0, o1] += exp(a[o1, o0]) + 1   for o0 < 4, o1 < 3
)",
       R"(
e[o0, o1] += exp(a[o0, o1])   for o0 < 3, o1 < 4
y[o0, o1] += e[o1, o0] + 1   for o0 < 4, o1 < 3
)"},
  };
  for (const Rewrite& row : rows) {
    SCOPED_TRACE(row.name);
    const ir::Program before = inline_producers(prepared(row.program()));
    auto lines = [](const ir::Program& program) {
      std::string out;
      for (const ir::Accumulation& a : program.accumulations) {
        const std::string line = to_string(program, a);
        out += line.substr(0, line.find("   #")) + "\n";
      }
      return out;
    };
    EXPECT_EQ(lines(before), trimmed(row.before));
    EXPECT_EQ(lines(reuse_stored(before)), trimmed(row.after));
  }
}

TEST(ReuseStored, MustRefuse) {
  const std::vector<Refusal> hand_rows = {
      {"arithmetic, which takes no longer than a load",
       [] {
         Tensor a = parameter("a", "3"), b = parameter("b", "3");
         return observe({(a * b).named("p"), exp(a * b).named("y")});
       }},
      {"other operands",
       [] {
         return observe({exp(parameter("a", "3")), 1 + exp(parameter("b", "3"))});
       }},
      {"other elements",
       [] {
         Tensor a = parameter("a", "4,4");
         return observe({exp(einsum("i, i => i", a)).named("d"), (1 + exp(a)).named("y")});
       }},
      {"a stored value that is rounded",
       [] {
         Tensor a = parameter("a", "3");
         return observe({cast(exp(a), DType::bf16).named("e"), (1 + exp(a)).named("y")});
       }},
  };
  for (const Refusal& row : hand_rows) {
    SCOPED_TRACE(row.reason);
    const ir::Program before = inline_producers(prepared(row.program()));
    EXPECT_EQ(to_string(reuse_stored(before)), to_string(before));
  }
}

}  // namespace
}  // namespace caravan::optimize
