// Tables for the tests of passes: what a pass makes of a program, and what it must leave alone and why.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"
#include "programs.h"

namespace caravan {

Tensor parameter(const std::string& name, const std::string& shape);
std::string trimmed(const std::string& text);  // raw strings begin with a line break

// As passes over accumulations meet a program, and as passes over loops do: a kernel for each accumulation.
ir::Program prepared(const Program& program);
loop::Module lowered(const Program& program);
std::string loops(const loop::Module& module);
std::string accumulations(const ir::Program& program);  // a line each, without where they come from

using ProgramPass = std::function<ir::Program(const ir::Program&)>;
using LoopPass = std::function<loop::Module(const loop::Module&)>;

// The machine for which passes of loops are tested, wherever the tests run: vectors of 32 bytes, built-in numbers.
Target tested_target();

// A pass that asks what the machine is like, for that machine.
ProgramPass for_tested(ir::Program (*pass)(const ir::Program&, const Target&));
LoopPass for_tested(loop::Module (*pass)(const loop::Module&, const Target&));

struct Rewrite {
  const char* name;
  std::function<Program()> program;
  const char *before, *after;
};
struct Refusal {
  const char* reason;
  std::function<Program()> program;
};
struct LoopRewrite {
  const char* name;
  std::function<Program()> program;
  std::vector<LoopPass> first;  // passes before it
  const char* after;
  const char* before = nullptr;  // what the pass is given, where a reader should see it
};
struct LoopRefusal {
  const char* reason;
  std::function<Program()> program;
  std::vector<LoopPass> first;
};

void expect_rewritten(const ProgramPass& pass, const std::vector<Rewrite>& rows);
void expect_refused(const ProgramPass& pass, const std::vector<Refusal>& rows);
loop::Module after_all(const std::vector<LoopPass>& passes, loop::Module module);
void expect_rewritten(const LoopPass& pass, const std::vector<LoopRewrite>& rows,
                      loop::Module (*lowering)(const Program&) = lowered);
void expect_refused(const LoopPass& pass, const std::vector<LoopRefusal>& rows);

// The program with its accumulations in this order.
ir::Program in_order(const Program& program, const std::vector<std::string>& targets);

}  // namespace caravan
