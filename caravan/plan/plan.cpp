#include "caravan/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "caravan/base/error.h"
#include "caravan/loop/walk.h"

namespace caravan::plan {

namespace {

// To meet a memory limit: how many plans are tried, and the least change of the estimate from one to the next, as a
// fraction of the limit.
constexpr int kMostRounds = 12;
constexpr int64_t kLeastChange = 100;

std::string bytes_text(int64_t bytes) {
  if (bytes < 1'000'000) return fmt::format("{} bytes", bytes);
  return fmt::format("{:.1f} MB", double(bytes) / 1e6);
}

}  // namespace

Plan make_plan(const ir::Program& program, const Target& target, const Options& options) {
  check(options);
  Plan out;
  out.target = target;
  out.options = options;
  out.program = program;
  out.made = true;
  out.optimized = optimized(program, target, options, out.log);
  const size_t over_accumulations = out.log.size();
  auto schedule = [&] {
    out.lowered = lowered(out.optimized, out.log);
    out.scheduled = scheduled(out.lowered, target, options, out.log);
    out.memory = plan_memory(out.scheduled, target);
  };
  schedule();
  const int64_t limit = options.memory_limit, needed = out.memory.bytes;
  const bool attends = target.kind == Target::Kind::cpu &&
                       std::any_of(out.scheduled.kernels.begin(), out.scheduled.kernels.end(), loop::attention);
  if (limit == 0 || needed <= limit) return out;

  // How much is live is estimated from the accumulations. Only a plan shows how much memory they take: scheduling fuses
  // some buffers away, and adds others. If it is too much, the next estimate must be lower by the difference.
  const ir::Program kept = out.optimized;
  std::vector<int64_t> bytes(kept.buffers.size(), 0);
  for (const Placement& p : out.memory.placements)
    if (size_t(p.buffer) < bytes.size()) bytes[size_t(p.buffer)] = p.bytes;
  int64_t least = needed, goal = limit;
  for (int round = 0; round < kMostRounds && goal > 0; ++round) {
    out.log.resize(over_accumulations);
    int64_t estimated = 0;
    out.optimized = rematerialised(kept, bytes, goal, estimated, out.log);
    schedule();
    if (out.memory.bytes <= limit) return out;
    least = std::min(least, out.memory.bytes);
    if (estimated > goal) break;  // it cannot be lower
    goal = std::min(goal, estimated) - std::max(out.memory.bytes - limit, limit / kLeastChange);
  }
  // Values that are computed again may separate the kernels of attention, whose scores then need memory: it can be less
  // without `cpu_attention`, whose results are the same.
  if (attends && std::find(options.off.begin(), options.off.end(), "cpu_attention") == options.off.end()) {
    Options other = options;
    other.off.emplace_back("cpu_attention");
    Plan plan = make_plan(program, target, other);
    plan.options = options;
    return plan;
  }
  throw StateError("the program `" + program.name + "` needs " + bytes_text(needed) +
                   " for its buffers, more than the limit of " + bytes_text(limit) +
                   (least < needed
                        ? ". With values that are computed again instead of kept it needs " + bytes_text(least)
                        : ". There is nothing that could be computed again instead of being kept") +
                   ". Try a smaller batch.");
}

}  // namespace caravan::plan
