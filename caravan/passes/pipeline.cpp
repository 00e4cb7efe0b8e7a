#include "caravan/passes/pipeline.h"

#include <algorithm>
#include <chrono>

#include "caravan/base/error.h"
#include "caravan/lower/lower.h"
#include "caravan/passes/copy_leaves.h"
#include "caravan/passes/delay_updates.h"
#include "caravan/passes/forward_stores.h"
#include "caravan/passes/fuse.h"
#include "caravan/passes/inline_producers.h"
#include "caravan/passes/merge_equal.h"
#include "caravan/passes/parallelize.h"
#include "caravan/passes/remove_unused.h"
#include "caravan/passes/split_loops.h"
#include "caravan/passes/split_sums.h"
#include "caravan/passes/update_in_place.h"
#include "caravan/passes/vectorize.h"

namespace caravan::passes {

namespace {

struct ProgramPass {
  const char* name;
  ir::Program (*run)(const ir::Program&);
};
struct LoopPass {
  const char* name;
  loop::Module (*run)(const loop::Module&);
  bool always = false;
};

// Always: every root a buffer of its own, so that nothing later has a special case for old values; then what is not
// needed, and the order of sums.
constexpr ProgramPass kPreparation[] = {
    {"copy_leaves", copy_leaves}, {"remove_unused", remove_unused}, {"split_sums", split_sums}};

constexpr ProgramPass kProgramPasses[] = {
    {"merge_equal", merge_equal},            // first, so that equal producers do not look like several readers
    {"inline_producers", inline_producers},  // before loops exist: composing index maps is easy here
    {"merge_equal", merge_equal},            // inlining makes equal things out of different ones
    {"delay_updates", delay_updates},        // last: the order of accumulations is the order of kernels
};
constexpr LoopPass kLoopPasses[] = {
    {"fuse", fuse},                        // first: the others work within a kernel
    {"forward_stores", forward_stores},    // a fused store and load become a register; unread buffers go
    {"update_in_place", update_in_place},  // after them: it needs to know who still reads the old state
    {"split_loops", split_loops, true},    // what split_sums chose becomes loops; always, for it is a choice of bits
    {"vectorize", vectorize},              // then loops have their final bodies
    {"parallelize", parallelize},          // last: no pass has to know about threads
};

// Is it the same program? Buffers count by their number: a pass that changes one changes an accumulation too.
bool same(const ir::Program& p, const ir::Program& q) {
  auto same_accumulation = [](const ir::Accumulation& a, const ir::Accumulation& b) {
    return a.target == b.target && a.extents == b.extents && a.where == b.where && a.write == b.write &&
           a.operands == b.operands && a.body == b.body;
  };
  return p.buffers.size() == q.buffers.size() && p.observed == q.observed &&
         std::equal(p.accumulations.begin(), p.accumulations.end(), q.accumulations.begin(), q.accumulations.end(),
                    same_accumulation);
}
bool same(const loop::Module& p, const loop::Module& q) {
  return p.kernels == q.kernels && p.program.assignments.size() == q.program.assignments.size();
}

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> out;
  auto add = [&](const char* name) {
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  };
  for (const auto& pass : kProgramPasses) add(pass.name);
  for (const auto& pass : kLoopPasses)
    if (!pass.always) add(pass.name);
  return out;
}

Result run(const ir::Program& program, const Options& options) {
  for (const std::string& off : options.off)
    if (auto all = names(); std::find(all.begin(), all.end(), off) == all.end()) {
      std::string known;
      for (const std::string& name : all) known += (known.empty() ? "" : ", ") + name;
      throw ConfigError("there is no pass `" + off + "`; the passes are " + known + ".");
    }
  Result out;
  auto step = [&](const char* name, auto& what, auto&& pass) {
    auto start = std::chrono::steady_clock::now();
    auto after = pass(what);
    const double milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    out.log.push_back({name, milliseconds, !same(what, after)});
    what = std::move(after);
#ifndef NDEBUG
    verify(what);  // of ir or of loop
#endif
  };
  auto on = [&](const char* name) {
    return std::find(options.off.begin(), options.off.end(), name) == options.off.end();
  };

  out.program = program;
  for (const ProgramPass& pass : kPreparation) step(pass.name, out.program, pass.run);
  for (const ProgramPass& pass : kProgramPasses)
    if (on(pass.name)) step(pass.name, out.program, pass.run);
  auto start = std::chrono::steady_clock::now();
  out.lowered = lower::lower(out.program);
  out.log.push_back(
      {"lower", std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(), true});
#ifndef NDEBUG
  verify(out.lowered);
#endif
  out.module = out.lowered;
  for (const LoopPass& pass : kLoopPasses)
    if (pass.always || on(pass.name)) step(pass.name, out.module, pass.run);
  return out;
}

}  // namespace caravan::passes
