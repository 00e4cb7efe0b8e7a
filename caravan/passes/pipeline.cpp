#include "caravan/passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "caravan/base/error.h"
#include "caravan/lower/lower.h"
#include "caravan/ops/table.h"
#include "caravan/passes/fuse.h"
#include "caravan/passes/inline.h"

namespace caravan::passes {

namespace {

// Observed and assigned values get a buffer of their own if they are leaves (a state, a number, data) or of another
// precision than the state: after this every root is computed, so nothing later needs a special case for old values.
ir::Program copy_leaves(const ir::Program& program) {
  ir::Program out = program;
  auto copied = [&](ir::BufferId id, DType dtype) {
    const ir::Buffer from = out.buffers[size_t(id)];
    if (std::holds_alternative<ir::Computed>(from.kind) && from.dtype == dtype) return id;
    ir::Accumulation a;
    a.target = ir::BufferId(out.buffers.size());
    a.accumulator = Accumulator::add;
    a.extents = from.shape.sizes();
    for (size_t k = 0; k < a.extents.size(); ++k) {
      a.iterators.push_back("i" + std::to_string(k));
      a.write.push_back(ir::Term::iterator(int(k)));
    }
    a.operands = {{id, a.write}};
    a.body.finish(from.dtype == dtype ? a.body.load(0) : a.body.cast(dtype, a.body.load(0)));
    a.label = "copy";
    a.source = from.where;
    out.buffers.push_back({"copy of " + from.name + " " + std::to_string(out.buffers.size()), from.shape, dtype, ir::Computed{}, from.where});
    out.accumulations.push_back(std::move(a));
    return out.accumulations.back().target;
  };
  for (auto& a : out.assignments) a.value = copied(a.value, out.buffers[size_t(a.state)].dtype);
  for (ir::BufferId& id : out.observed) id = copied(id, out.buffers[size_t(id)].dtype);
  return out;
}

struct ProgramPass {
  const char* name;
  ir::Program (*run)(const ir::Program&);
};
struct LoopPass {
  const char* name;
  loop::Module (*run)(const loop::Module&);
};

constexpr ProgramPass kProgramPasses[] = {
    {"merge_equal", merge_equal},            // first, so that equal producers do not look like several readers
    {"inline_producers", inline_producers},  // before loops exist: composing index maps is easy here
    {"merge_equal", merge_equal},            // inlining makes equal things out of different ones
    {"delay_updates", delay_updates},        // last: the order of accumulations is the order of kernels
};
constexpr LoopPass kLoopPasses[] = {
    {"fuse", fuse},                          // first: the others work within a kernel
    {"forward_stores", forward_stores},      // a fused store and load become a register; unread buffers go
    {"update_in_place", update_in_place},    // last: it needs to know who still reads the old state
};

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> out;
  auto add = [&](const char* name) {
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  };
  for (const auto& pass : kProgramPasses) add(pass.name);
  for (const auto& pass : kLoopPasses) add(pass.name);
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
  auto timed = [&](const char* name, auto&& work) {
    auto start = std::chrono::steady_clock::now();
    bool changed = work();
    out.log.push_back({name, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(), changed});
  };
  auto on = [&](const char* name) { return std::find(options.off.begin(), options.off.end(), name) == options.off.end(); };

  out.program = remove_unused(copy_leaves(program));
  for (const ProgramPass& pass : kProgramPasses)
    if (on(pass.name))
      timed(pass.name, [&] {
        std::string before = ir::to_string(out.program);
        out.program = pass.run(out.program);
#ifndef NDEBUG
        ir::verify(out.program);
#endif
        return before != ir::to_string(out.program);
      });
  out.lowered = lower::lower(out.program);
  out.module = out.lowered;
  for (const LoopPass& pass : kLoopPasses)
    if (on(pass.name))
      timed(pass.name, [&] {
        std::string before = loop::to_string(out.module);
        out.module = pass.run(out.module);
#ifndef NDEBUG
        loop::verify(out.module);
#endif
        return before != loop::to_string(out.module);
      });
  return out;
}

}  // namespace caravan::passes
