#include "caravan/passes/pipeline.h"

#include <algorithm>
#include <chrono>

#include "caravan/base/error.h"
#include "caravan/lower/lower.h"
#include "caravan/passes/copy_leaves.h"
#include "caravan/passes/delay_updates.h"
#include "caravan/passes/forward_stores.h"
#include "caravan/passes/fuse.h"
#include "caravan/passes/hoist.h"
#include "caravan/passes/inline_producers.h"
#include "caravan/passes/join_parts.h"
#include "caravan/passes/merge_equal.h"
#include "caravan/passes/merge_values.h"
#include "caravan/passes/pack_operands.h"
#include "caravan/passes/parallelize.h"
#include "caravan/passes/remove_unused.h"
#include "caravan/passes/run_forwards.h"
#include "caravan/passes/simplify.h"
#include "caravan/passes/solve_writes.h"
#include "caravan/passes/split_loops.h"
#include "caravan/passes/split_sums.h"
#include "caravan/passes/update_in_place.h"
#include "caravan/passes/vectorize.h"

namespace caravan::passes {

namespace {

// What is always on is no optimisation: later passes count on it, or it chooses bits.
template <class T>
struct Pass {
  const char* name;
  T (*run)(const T&);
  bool always = false;
};

constexpr Pass<ir::Program> kProgramPasses[] = {
    {"copy_leaves", copy_leaves, true},      // every root a buffer of its own: no special case for old values later
    {"remove_unused", remove_unused, true},  // then what is not needed
    {"solve_writes", solve_writes},          // before the order of sums is chosen
    {"run_forwards", run_forwards, true},    // likewise: it says in which direction a sum runs
    {"split_sums", split_sums, true},        // that choice, before any optimisation, so that none changes a bit
    {"join_parts", join_parts},              // before inlining, which would put the sum into its readers
    {"simplify", simplify},                  // what is a copy after all is read in place, equals become equal
    {"merge_equal", merge_equal},            // so that equal producers do not look like several readers
    {"inline_producers", inline_producers},  // before loops exist: composing index maps is easy here
    {"simplify", simplify},                  // a factor of 1 that was a tensor of ones is seen now
    {"merge_equal", merge_equal},            // inlining makes equal things out of different ones
    {"pack_operands", pack_operands},        // after them: its copies are to stay
    {"delay_updates", delay_updates},        // last: the order of accumulations is the order of kernels
};
constexpr Pass<loop::Module> kLoopPasses[] = {
    {"fuse", fuse},                        // first: the others work within a kernel
    {"forward_stores", forward_stores},    // a fused store and load become a register; unread buffers go
    {"hoist", hoist},                      // no store that nobody reads holds a load back any more
    {"merge_values", merge_values},        // equal values of sibling loops stand in one block now
    {"update_in_place", update_in_place},  // after them: it needs to know who still reads the old state
    {"split_loops", split_loops, true},    // what split_sums chose becomes loops; always, for it is a choice of bits
    {"vectorize", vectorize},              // then loops have their final bodies
    {"parallelize", parallelize},          // last: no pass has to know about threads
};

// Is it the same program? Buffers count by their number: a pass that changes one changes an accumulation too.
bool same(const ir::Program& p, const ir::Program& q) {
  auto same_accumulation = [](const ir::Accumulation& a, const ir::Accumulation& b) {
    return a.target == b.target && a.accumulator == b.accumulator && a.order == b.order && a.part == b.part &&
           a.extents == b.extents && a.where == b.where && a.write == b.write && a.operands == b.operands &&
           a.body == b.body;
  };
  return p.buffers.size() == q.buffers.size() && p.observed == q.observed &&
         std::equal(p.accumulations.begin(), p.accumulations.end(), q.accumulations.begin(), q.accumulations.end(),
                    same_accumulation);
}
size_t count(const ir::Program& p) { return p.accumulations.size(); }
size_t count(const loop::Module& p) { return p.kernels.size(); }

bool same(const loop::Module& p, const loop::Module& q) {
  return p.kernels == q.kernels && p.program.assignments.size() == q.program.assignments.size();
}

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> out;
  auto add = [&](const char* name) {
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  };
  for (const auto& pass : kProgramPasses)
    if (!pass.always) add(pass.name);
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
    out.log.push_back(
        {name, milliseconds, !same(what, after), count(after), std::is_same_v<decltype(after), loop::Module>});
    what = std::move(after);
#ifndef NDEBUG
    verify(what);  // of ir or of loop
#endif
  };
  auto on = [&](const auto& pass) {
    return pass.always || std::find(options.off.begin(), options.off.end(), pass.name) == options.off.end();
  };

  out.program = program;
  for (const auto& pass : kProgramPasses)
    if (on(pass)) step(pass.name, out.program, pass.run);
  auto start = std::chrono::steady_clock::now();
  out.lowered = lower::lower(out.program);
  out.log.push_back({"lower",
                     std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(), true,
                     count(out.lowered), true});
#ifndef NDEBUG
  verify(out.lowered);
#endif
  out.module = out.lowered;
  for (const auto& pass : kLoopPasses)
    if (on(pass)) step(pass.name, out.module, pass.run);
  return out;
}

}  // namespace caravan::passes
