#include "pass_table.h"

#include <gtest/gtest.h>

#include "caravan/lower/lower.h"
#include "caravan/optimize/copy_leaves.h"
#include "caravan/optimize/delay_updates.h"
#include "caravan/optimize/remove_unused.h"

namespace caravan {

Tensor parameter(const std::string& name, const std::string& shape) { return param(name, Array(parse_shape(shape))); }

std::string trimmed(const std::string& text) {
  const size_t from = text.find_first_not_of('\n');
  return from == text.npos ? "" : text.substr(from);
}

ir::Program prepared(const Program& program) { return optimize::remove_unused(optimize::copy_leaves(to_ir(program))); }
loop::Module lowered(const Program& program) { return lower::lower(optimize::delay_updates(prepared(program))); }
std::string loops(const loop::Module& module) { return joined(lines_of(loop::to_string(module))); }
std::string accumulations(const ir::Program& program) {
  std::string out;
  for (const ir::Accumulation& a : program.accumulations) {
    const std::string line = to_string(program, a);
    out += line.substr(0, line.find("   #")) + "\n";
  }
  return out;
}

Target tested_target() {
  Target out = host(1);
  out.vector_bytes = 32, out.vector_registers = 16, out.tuning = built_in_tuning(out.vector_bytes);
  return out;
}
ProgramPass for_tested(ir::Program (*pass)(const ir::Program&, const Target&)) {
  return [pass](const ir::Program& program) { return pass(program, tested_target()); };
}
LoopPass for_tested(loop::Module (*pass)(const loop::Module&, const Target&)) {
  return [pass](const loop::Module& module) { return pass(module, tested_target()); };
}

void expect_rewritten(const ProgramPass& pass, const std::vector<Rewrite>& rows) {
  for (const Rewrite& row : rows) {
    SCOPED_TRACE(row.name);
    const ir::Program before = prepared(row.program()), after = pass(before);
    ir::verify(after);
    EXPECT_EQ(body_of(before), trimmed(row.before));
    EXPECT_EQ(body_of(after), trimmed(row.after));
    EXPECT_EQ(body_of(pass(after)), body_of(after)) << "a second time";
  }
}
void expect_refused(const ProgramPass& pass, const std::vector<Refusal>& rows) {
  for (const Refusal& row : rows) {
    const ir::Program before = prepared(row.program());
    EXPECT_EQ(body_of(pass(before)), body_of(before)) << row.reason;
  }
}

loop::Module after_all(const std::vector<LoopPass>& passes, loop::Module module) {
  for (const LoopPass& pass : passes) module = pass(module);
  return module;
}
void expect_rewritten(const LoopPass& pass, const std::vector<LoopRewrite>& rows,
                      loop::Module (*lowering)(const Program&)) {
  for (const LoopRewrite& row : rows) {
    SCOPED_TRACE(row.name);
    const loop::Module before = after_all(row.first, lowering(row.program())), after = pass(before);
    loop::verify(after);
    if (row.before) {
      EXPECT_EQ(loops(before), trimmed(row.before));
    }
    EXPECT_EQ(loops(after), trimmed(row.after));
    EXPECT_EQ(loops(pass(after)), loops(after)) << "a second time";
  }
}
void expect_refused(const LoopPass& pass, const std::vector<LoopRefusal>& rows) {
  for (const LoopRefusal& row : rows) {
    const loop::Module before = after_all(row.first, lowered(row.program()));
    EXPECT_EQ(loops(pass(before)), loops(before)) << row.reason;
  }
}

ir::Program in_order(const Program& program, const std::vector<std::string>& targets) {
  const ir::Program p = prepared(program);
  ir::Program out = p;
  out.accumulations.clear();
  for (const std::string& target : targets)
    for (const ir::Accumulation& a : p.accumulations)
      if (p.buffers[size_t(a.target)].name == target) out.accumulations.push_back(a);
  EXPECT_EQ(out.accumulations.size(), p.accumulations.size()) << body_of(p);
  ir::verify(out);
  return out;
}

}  // namespace caravan
