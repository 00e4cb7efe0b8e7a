// The layer that docs/design.md follows from its accumulations to its C: is what the page shows what the compiler
// makes? UPDATE_GOLDEN=1 writes it into the page.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "caravan/codegen/c.h"
#include "caravan/plan/plan.h"
#include "caravan/schedule/expand_lanes.h"
#include "caravan/schedule/forward_stores.h"
#include "caravan/schedule/fuse.h"
#include "caravan/schedule/parallelize.h"
#include "caravan/schedule/vectorize.h"
#include "pass_table.h"

namespace caravan::plan {
namespace {

constexpr const char* kPage = "docs/design.md";
constexpr const char* kHeading = "### One layer, from its accumulations to its C";

// The machine of the page: vectors of 8 f32, 16 registers for them.
Target machine() {
  Target out;
  out.vector_bytes = 32, out.vector_registers = 16, out.fma = true, out.tuning = built_in_tuning(out.vector_bytes);
  return out;
}

// What the page shows, block by block.
std::vector<std::string> stages() {
  const Tensor x = parameter("x", "4096,7"), w = parameter("w", "7,16"), bias = parameter("b", "16");
  const Tensor h = einsum("n,i; i,o => n,o", x, w).named("h");
  const Program layer = observe(relu(h + bias).named("y"));
  const Plan plan = make_plan(to_ir(layer), machine());
  Log log;
  const loop::Module before = lowered(plan.optimized, log);
  const loop::Module fused = schedule::forward_stores(schedule::fuse(before));
  const loop::Module in_vectors = schedule::parallelize(schedule::vectorize(fused, machine()), machine());
  EXPECT_EQ(loops(schedule::expand_lanes(in_vectors, machine())), loops(plan.scheduled))
      << "other passes change it too";
  const std::string c = codegen::to_c(plan.scheduled);
  const size_t from = c.find("static void k0"), to = c.find("\n}\n", from);
  return {body_of(plan.program), body_of(plan.optimized),      loops(before), loops(fused), loops(in_vectors),
          loops(plan.scheduled), c.substr(from, to + 3 - from)};
}

TEST(WorkedExample, IsWhatTheCompilerMakes) {
  std::ifstream in(kPage);
  const std::string page(std::istreambuf_iterator<char>(in), {});
  const size_t begin = page.find(kHeading), end = page.find("\n### ", begin + 1);
  ASSERT_NE(begin, page.npos);
  std::string section = page.substr(begin, end - begin), made;
  size_t at = 0;
  for (const std::string& stage : stages()) {
    const size_t open = section.find("```text\n", at);
    ASSERT_NE(open, section.npos) << "the page has no block for\n" << stage;
    const size_t text = open + 8, close = section.find("```\n", text);
    EXPECT_EQ(section.substr(text, close - text), stage);
    made += section.substr(at, text - at) + stage;
    at = close;
  }
  EXPECT_EQ(section.find("```text\n", at), section.npos) << "a block that nobody checks";
  if (std::getenv("UPDATE_GOLDEN"))
    std::ofstream(kPage) << page.substr(0, begin) + made + section.substr(at) + page.substr(end);
}

}  // namespace
}  // namespace caravan::plan
