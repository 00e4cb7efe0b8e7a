// Where the calls stand by which devices exchange values.
#include "caravan/schedule/place_collectives.h"

#include <gtest/gtest.h>

#include "caravan/lower/lower.h"
#include "caravan/mesh/shard.h"
#include "caravan/optimize/copy_leaves.h"
#include "caravan/optimize/remove_unused.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

// What the pass is given: a program that is divided over two devices, as kernels.
loop::Module divided(const Program& program) {
  const ir::Program whole = to_ir(program), part = mesh::shard(whole, Mesh{{"data", 2}}, {});
  return lower::lower(optimize::remove_unused(optimize::copy_leaves(part)));
}
// The kernels in order: ordinary ones by name, and where an exchange begins and is waited for.
std::string listed(const loop::Module& module) {
  std::string out;
  for (const loop::Kernel& kernel : module.kernels) {
    if (const loop::LibraryCall* call = loop::library_call(kernel)) {
      out += std::holds_alternative<loop::LibraryCall::Wait>(call->function) ? "wait for" : "exchange";
      for (const ir::BufferId id : call->reads) out += " [" + module.buffers[size_t(id)].name + "]";
    } else {
      out += kernel.name;
    }
    out += "\n";
  }
  return out;
}
// The sum over the examples, of which each device has half.
Tensor over_batch(const std::string& name, int64_t elements) {
  const Tensor x = place(parameter(name, "8|" + std::to_string(elements)), "data");
  return einsum("b | o => o", x).named("sum of " + name);
}

struct Row {
  const char* name;
  std::function<Program()> program;
  const char* order;
};

TEST(PlaceCollectives, Order) {
  const Row rows[] = {
      {"a call begins when what it sends is there, and others run before the wait",
       [] { return observe((over_batch("x", 65536) * 2).named("y")) & observe(exp(parameter("a", "4")).named("z")); },
       R"(
x.1
sum of x.part
exchange [sum of x.part]
z
wait for [sum of x.part]
y
)"},
      {"a small one begins when it is needed",
       [] { return observe((over_batch("x", 16) * 2).named("y")) & observe(exp(parameter("a", "4")).named("z")); },
       R"(
x.1
sum of x.part
z
exchange [sum of x.part]
wait for [sum of x.part]
y
)"},
      {"small ones are one call",
       [] { return observe((over_batch("x", 16) * 2).named("y")) & observe((over_batch("v", 8) * 3).named("z")); },
       R"(
x.1
sum of x.part
v.1
sum of v.part
exchange [sum of x.part] [sum of v.part]
wait for [sum of x.part] [sum of v.part]
y
z
)"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const loop::Module before = divided(row.program()), after = place_collectives(before);
    EXPECT_FALSE(before.collectives.empty());
    EXPECT_TRUE(after.collectives.empty());
    loop::verify(after);
    EXPECT_EQ(listed(after), trimmed(row.order));
  }
}

TEST(PlaceCollectives, AProgramOfOneDeviceIsLeftAlone) {
  const loop::Module module = lowered(observe(exp(parameter("a", "4"))) & observe(sum(parameter("b", "8"))));
  EXPECT_EQ(place_collectives(module).kernels, module.kernels);
}

}  // namespace
}  // namespace caravan::schedule
