// Sums of which one term is not 0.
#include "caravan/schedule/pick_terms.h"

#include <gtest/gtest.h>

#include "caravan/lower/lower.h"
#include "caravan/optimize/inline_producers.h"
#include "caravan/optimize/simplify.h"
#include "caravan/optimize/split_sums.h"
#include "caravan/schedule/hoist.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

loop::Module with_all_terms(const Program& program) {
  using namespace optimize;
  return hoist(lower::lower(split_sums(simplify(inline_producers(simplify(prepared(program)))), gpu_target())));
}
loop::Module picked(const Program& program) {
  const loop::Module out = pick_terms(with_all_terms(program));
  loop::verify(out);
  return out;
}
Tensor labels() { return tensor(Array(parse_shape("4"), {0, 3, 2, 9}, DType::i32)); }
// 1 where the class is that of the label
Tensor is_label() { return eq("b; c => b,c", labels(), iota(10)); }
Program added(const Tensor& x) { return observe(einsum("b,c => b", x).named("y")); }

TEST(PickTerms, TheTermOfTheLabel) {
  const Program program = added(where(is_label(), parameter("x", "4,10"), 0.0));
  const std::string before = loops(with_all_terms(program)), after = loops(picked(program));
  EXPECT_NE(before.find("for c < 10:"), std::string::npos) << before;
  EXPECT_EQ(after.find("for c < 10:"), std::string::npos) << after;
  EXPECT_NE(after.find(" >= 0 and "), std::string::npos) << after;
}

TEST(PickTerms, Refusals) {
  const std::vector<Refusal> rows = {
      {"the other terms are 1", [] { return added(where(is_label(), parameter("x", "4,10"), 1.0)); }},
      {"the other terms are NaN, if x is infinite",
       [] { return added(cast(is_label(), DType::f32) * parameter("x", "4,10")); }},
      {"another accumulator",
       [] { return observe(einmax("b,c => b", where(is_label(), parameter("x", "4,10"), 0.0)).named("y")); }},
      {"each term has an index of its own",
       [] {
         const Tensor own = tensor(Array(parse_shape("4,10"), DType::i32));
         return added(where(eq("b,c; c => b,c", own, iota(10)), parameter("x", "4,10"), 0.0));
       }},
  };
  for (const Refusal& row : rows)
    EXPECT_EQ(loops(picked(row.program())), loops(with_all_terms(row.program()))) << row.reason;
}

}  // namespace
}  // namespace caravan::schedule
