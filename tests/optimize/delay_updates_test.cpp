// An update comes after the last reader of the old value.
#include "caravan/optimize/delay_updates.h"

#include <gtest/gtest.h>

#include "pass_table.h"

namespace caravan::optimize {
namespace {

std::vector<std::string> order_of(const ir::Program& program) {
  std::vector<std::string> out;
  for (const ir::Accumulation& a : program.accumulations) out.push_back(program.buffers[size_t(a.target)].name);
  return out;
}

TEST(DelayUpdates, BeforeAndAfter) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    std::vector<std::string> before, after;
  };
  const Row rows[] = {
      {"an update comes after the last reader of the old value",
       [] {
         Tensor w = parameter("w", "3");
         return assign(w, exp(w).named("new")) & observe(sin(w).named("old"));
       },
       {"new", "old"},
       {"old", "new"}},
      {"the gradient comes directly before its update, behind the reader of the weight",
       [] {
         Tensor w = parameter("w", "3->3"), x = parameter("x", "2|3"), dy = parameter("dy", "2|3");
         Tensor dw = einsum("b|o; b|i => i->o", dy, x).named("dw"), dx = einsum("b|o; i->o => b|i", dy, w).named("dx");
         return assign(w, (w - dw).named("new")) & observe(dx);
       },
       {"dw", "new", "dx"},
       {"dx", "dw", "new"}},
      {"random bits read the old step",
       [] {
         Tensor step =
             state("step",
                   {.batch = Extents{}, .input = Extents{}, .output = Extents{}, .init = zeros(), .dtype = DType::i64});
         return assign(step, (step + 1).named("next")) &
                observe(cast(random_bits("s", {.output = {2}, .step = step}), DType::f32).named("bits"));
       },
       {"next", "bits"},
       {"bits", "next"}},
      {"a computed step comes before the random bits that it keys",
       [] {
         Tensor a = parameter("a", ""), step = cast(a * 2, DType::i64).named("step");
         return observe(cast(random_bits("s", {.output = {2}, .step = step}), DType::f32).named("bits")) &
                assign(a, exp(a).named("next"));
       },
       {"mul", "step", "next", "bits"},
       {"mul", "step", "next", "bits"}},
      {"a number that is computed from states alone stands between no gradient and its update",
       [] {
         const Tensor w = parameter("w", "3->3"), x = parameter("x", "2|3"), dy = parameter("dy", "2|3");
         const Tensor mean = parameter("mean", "3->3"), step = parameter("step", "");
         const Tensor dw = einsum("b|o; b|i => i->o", dy, x).named("dw"),
                      dx = einsum("b|o; i->o => b|i", dy, w).named("dx");
         const Tensor correction = exp(step).named("correction"), next = (mean + dw).named("next mean");
         return assign(w, clamp(w, dw, correction).named("new")) & assign(mean, next) &
                assign(step, (step + 1).named("next step")) & observe(dx);
       },
       {"dw", "next mean", "dx", "correction", "new", "next step"},
       {"correction", "dx", "dw", "next mean", "new", "next step"}},
      {"a reader that needs the new value stays behind it",
       [] {
         Tensor w = parameter("w", "3"), next = exp(w).named("new");
         return assign(w, next) & observe((next * w).named("both"));
       },
       {"new", "both"},
       {"new", "both"}},
      {"one true conflict holds up nothing else: v waits for its reader, which is found behind u's circle",
       [] {
         Tensor u = parameter("u", "3"), v = parameter("v", "3"), next = exp(u).named("new u"),
                both = (next * u).named("both");
         return assign(v, exp(v).named("new v")) & assign(u, next) & observe(both) &
                observe((sin(v) + both).named("old v"));
       },
       {"new v", "new u", "both", "sin", "old v"},
       {"new u", "both", "sin", "new v", "old v"}},
  };
  for (const Row& row : rows) {
    const ir::Program before = in_order(row.program(), row.before), after = delay_updates(before);
    ir::verify(after);
    EXPECT_EQ(order_of(after), row.after) << row.name;
    EXPECT_EQ(order_of(delay_updates(after)), row.after) << row.name << ", a second time";
  }
}

TEST(DelayUpdates, MustRefuse) {
  struct Row {
    const char* reason;
    std::function<Program()> program;
  };
  const Row rows[] = {
      {"the reader of the old value needs the new one too",
       [] {
         Tensor w = parameter("w", "3"), next = exp(w).named("new");
         return assign(w, next) & observe((next * w).named("both"));
       }},
      {"nothing is assigned", [] { return observe(exp(parameter("w", "3"))) & observe(sin(parameter("v", "3"))); }},
  };
  for (const Row& row : rows) {
    const ir::Program before = prepared(row.program());
    EXPECT_EQ(body_of(delay_updates(before)), body_of(before)) << row.reason;
  }
}

}  // namespace
}  // namespace caravan::optimize
