// Values are computed again instead of kept.
#include "caravan/optimize/rematerialise.h"

#include <gtest/gtest.h>

#include "pass_table.h"

namespace caravan::optimize {
namespace {

// What is computed, in order, and what it must come after: "y.again after t".
std::vector<std::string> steps_of(const ir::Program& program) {
  std::vector<std::string> out;
  for (const ir::Accumulation& a : program.accumulations)
    out.push_back(program.buffers[size_t(a.target)].name +
                  (a.after == -1 ? "" : " after " + program.buffers[size_t(a.after)].name));
  return out;
}
std::vector<int64_t> sizes_of(const ir::Program& program) {
  std::vector<int64_t> out;
  for (const ir::Buffer& b : program.buffers) out.push_back(b.shape.elements() * bytes(b.dtype));
  return out;
}
std::vector<std::string> reads(const ir::Program& program, const std::string& name) {
  std::vector<std::string> out;
  for (const ir::Accumulation& a : program.accumulations)
    if (program.buffers[size_t(a.target)].name == name)
      for (const ir::Operand& o : a.operands) out.push_back(program.buffers[size_t(o.buffer)].name);
  return out;
}

// The total of a chain of functions of x, over which `kept` waits.
Tensor chain(const Tensor& x) { return sum(cos(sin(x).named("b")).named("c")).named("t"); }

TEST(Rematerialise, BeforeAndAfter) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    std::vector<std::string> before;
    int64_t limit;
    std::vector<std::string> after;
    std::vector<std::string> last_reads;  // what the last accumulation reads
  };
  const Row rows[] = {
      {"an elementwise function",
       [] {
         Tensor a = exp(parameter("x", "1000")).named("a"), t = chain(a);
         return observe(sum(a * t).named("end"));
       },
       {"a", "b", "c", "t", "mul", "end"},
       8'100,
       {"a", "b", "c", "t", "a.again after t", "mul", "end"},
       {"mul"}},
      {"what is needed for it and not there any more, too",
       [] {
         Tensor a = exp(parameter("x", "1000")).named("a"), d = tanh(a).named("d"), t = chain(d);
         return observe(sum(d * t).named("end"));
       },
       {"a", "d", "b", "c", "t", "mul", "end"},
       8'100,
       {"a", "d", "b", "c", "t", "a.again after t", "d.again after t", "mul", "end"},
       {"mul"}},
      {"but what is small is kept",
       [] {
         Tensor x = parameter("x", "10|100"), m = einsum("b|i => b|", x).named("m"), a = (x - m).named("a"),
                t = chain(a);
         return observe(sum(a * t).named("end"));
       },
       {"m", "a", "b", "c", "t", "mul", "end"},
       8'100,
       {"m", "a", "b", "c", "t", "a.again after t", "mul", "end"},
       {"mul"}},
      {"the cheaper one of two",
       [] {
         Tensor x = parameter("x", "100|10"), w = parameter("w", "10->10");
         Tensor p = w(x).named("p"), a = exp(x).named("a"), t = chain(p + a);
         return observe(sum(p * t + a).named("end"));
       },
       {"p", "a", "add", "b", "c", "t", "mul", "add.1", "end"},
       12'100,
       {"p", "a", "add", "b", "c", "t", "mul", "a.again after mul", "add.1", "end"},
       {"add.1"}},
  };
  for (const Row& row : rows) {
    const ir::Program before = in_order(row.program(), row.before);
    const Rematerialised after = rematerialise(before, sizes_of(before), row.limit);
    ir::verify(after.program);
    EXPECT_EQ(steps_of(after.program), row.after) << row.name;
    EXPECT_LE(after.live, row.limit) << row.name;
    EXPECT_EQ(reads(after.program, "end"), row.last_reads) << row.name;
  }
}

TEST(Rematerialise, MustRefuse) {
  struct Row {
    const char* reason;
    std::function<Program()> program;
    std::vector<std::string> order;
    int64_t limit = 0;
  };
  const Row rows[] = {
      {"it fits",
       [] {
         Tensor a = exp(parameter("x", "1000")).named("a"), t = chain(a);
         return observe(sum(a * t).named("end"));
       },
       {"a", "b", "c", "t", "mul", "end"},
       12'000},
      {"it is observed, and so kept to the end",
       [] {
         Tensor a = exp(parameter("x", "1000")).named("a"), t = chain(a);
         return observe(sum(a * t).named("end")) & observe(a);
       },
       {"a", "b", "c", "t", "mul", "end"}},
      {"all are needed at the peak",
       [] {
         Tensor a = exp(parameter("x", "1000")).named("a"), b = sin(a).named("b");
         return observe(sum(a * b).named("end"));
       },
       {"a", "b", "mul", "end"}},
      {"it reads the old value of a state that has a new one by then",
       [] {
         Tensor w = parameter("w", "1000"), a = exp(w).named("a"), t = chain(a), next = (w + 1).named("next");
         return assign(w, next) & observe(sum(a * t).named("end"));
       },
       {"a", "b", "c", "t", "next", "mul", "end"}},
  };
  for (const Row& row : rows) {
    const ir::Program before = in_order(row.program(), row.order);
    std::vector<int64_t> bytes = sizes_of(before);
    for (const auto& a : before.assignments) bytes[size_t(a.value)] = 0;  // stored in place
    EXPECT_EQ(steps_of(rematerialise(before, bytes, row.limit).program), row.order) << row.reason;
  }
}

// `r` is computed with `i`, which is never stored, in one kernel, and `g` reads `i` in another.
TEST(Rematerialise, ComputesAPartAgainAsAWhole) {
  const Tensor x = parameter("x", "1000"), a = exp(x).named("a"), i = sin(a).named("i"), r = cos(i).named("r"),
               t = chain(r);
  const ir::Program before = in_order(observe(sum(r * t).named("end")) & observe(sum((i * t).named("g")).named("late")),
                                      {"a", "i", "r", "b", "c", "t", "mul", "end", "g", "late"});
  std::vector<int64_t> bytes = sizes_of(before);
  Group group;
  for (size_t b = 0; b < before.buffers.size(); ++b) {
    const std::string& name = before.buffers[b].name;
    if (name == "i") bytes[b] = 0, group.forward = {ir::BufferId(b)};
    if (name == "r") group.result = ir::BufferId(b);
    if (name == "g") group.gradients = {ir::BufferId(b)};
  }
  const ir::Program after = rematerialise(before, bytes, 8'100, {group}).program;
  ir::verify(after);
  EXPECT_EQ(steps_of(after),
            (std::vector<std::string>{"a", "i", "r", "b", "c", "t", "a.again after t", "i.again after t",
                                      "r.again after t", "mul", "end", "g", "late"}));
  EXPECT_EQ(reads(after, "g")[0], "i.again");
}

}  // namespace
}  // namespace caravan::optimize
