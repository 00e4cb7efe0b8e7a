// The last readers of large buffers run as soon as they can.
#include "caravan/optimize/free_early.h"

#include <gtest/gtest.h>

#include "pass_table.h"

namespace caravan::optimize {
namespace {

std::vector<std::string> computed(const ir::Program& program) {
  std::vector<std::string> out;
  for (const ir::Accumulation& a : program.accumulations) out.push_back(program.buffers[size_t(a.target)].name);
  return out;
}

TEST(FreeEarly, BeforeAndAfter) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    std::vector<std::string> before, after;
  };
  const Row rows[] = {
      {"a sum that is the last reader of a large tensor",
       [] {
         Tensor a = exp(parameter("x", "500000")).named("a"), b = sin(a).named("b"), c = cos(b).named("c");
         return observe(sum(c).named("late")) & observe(sum(a).named("early"));
       },
       {"a", "b", "c", "late", "early"},
       {"a", "b", "early", "c", "late"}},
      {"a gradient with the update that it is needed for",
       [] {
         Tensor w = parameter("w", "30->30"), x = exp(parameter("data", "9000|30")).named("x"), y = sin(x).named("y"),
                z = cos(y).named("z");
         Tensor dw = einsum("b|i; b|o => i->o", x, y).named("dw");
         return observe(sum(z).named("loss")) & assign(w, (w - dw).named("new"));
       },
       {"x", "y", "z", "loss", "dw", "new"},
       {"x", "y", "dw", "new", "z", "loss"}},
      {"not before a reader of the old value of a state",
       [] {
         Tensor w = parameter("w", "500000"), a = exp(parameter("x", "500000")).named("a"), b = sin(a).named("b");
         Tensor c = (cos(b) * w).named("c"), d = tan(c).named("d"), e = exp(c).named("e");
         return assign(w, (w - a).named("new")) & observe(sum(d * e).named("late"));
       },
       {"a", "b", "cos", "c", "d", "e", "mul", "late", "new"},
       {"a", "b", "cos", "c", "new", "d", "e", "mul", "late"}},
  };
  for (const Row& row : rows) {
    const ir::Program before = in_order(row.program(), row.before), after = free_early(before, tested_target());
    ir::verify(after);
    EXPECT_EQ(computed(after), row.after) << row.name;
    EXPECT_EQ(computed(free_early(after, tested_target())), row.after) << row.name << ", a second time";
  }
}

TEST(FreeEarly, MustRefuse) {
  struct Row {
    const char* reason;
    std::function<Program()> program;
    std::vector<std::string> order;
  };
  const Row rows[] = {
      {"the peak would be the same",
       [] {
         Tensor a = exp(parameter("x", "500000")).named("a"), b = sin(a).named("b");
         return observe(sum(b).named("late")) & observe(sum(a).named("early"));
       },
       {"a", "b", "late", "early"}},
      {"the program is small",
       [] {
         Tensor a = exp(parameter("x", "5000")).named("a"), b = sin(a).named("b"), c = cos(b).named("c");
         return observe(sum(c).named("late")) & observe(sum(a).named("early"));
       },
       {"a", "b", "c", "late", "early"}},
      {"what is observed is never free",
       [] {
         Tensor a = exp(parameter("x", "500000")).named("a"), b = sin(a).named("b"), c = cos(b).named("c");
         return observe(a) & observe(sum(c).named("late")) & observe(sum(a).named("early"));
       },
       {"a", "b", "c", "late", "early"}},
  };
  for (const Row& row : rows)
    EXPECT_EQ(computed(free_early(in_order(row.program(), row.order), tested_target())), row.order) << row.reason;
}

}  // namespace
}  // namespace caravan::optimize
