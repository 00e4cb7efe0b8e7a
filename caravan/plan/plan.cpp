#include "caravan/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "caravan/base/error.h"
#include "caravan/loop/walk.h"
#include "caravan/schedule/attention_chain.h"

namespace caravan::plan {

namespace {

// To meet a memory limit: how many plans are tried. From one to the next, the estimate falls by at least the limit
// divided by kLeastFall, which is 1 % of it.
constexpr int kMostRounds = 12;
constexpr int64_t kLeastFall = 100;

constexpr const char* kAttention = "cpu_attention";  // the pass

std::string bytes_text(int64_t bytes) {
  if (bytes < 1'000'000) return fmt::format("{} bytes", bytes);
  return fmt::format("{:.1f} MB", double(bytes) / 1e6);
}

// The accumulations of attention, each of which becomes two kernels.
std::vector<optimize::Group> attention_groups(const loop::Module& lowered) {
  std::vector<optimize::Group> out;
  for (const schedule::AttentionChain& chain : schedule::attention_chains(lowered)) {
    optimize::Group group;
    group.result = chain.out.buffer;
    if (chain.has_gradient) group.gradients = {chain.d_query.buffer, chain.d_key.buffer, chain.d_value.buffer};
    for (const size_t k : chain.kernels)
      loop::for_each_access(lowered.kernels[k], [&](const loop::Access& access) {
        const bool result = access.buffer == group.result ||
                            std::count(group.gradients.begin(), group.gradients.end(), access.buffer) > 0;
        if (access.write && !result) (k <= chain.forward ? group.forward : group.gradient).push_back(access.buffer);
      });
    out.push_back(std::move(group));
  }
  return out;
}

// A plan that was tried, and the bytes of its buffers.
struct Tried {
  Plan plan;
  int64_t needed = 0, least = 0;  // without and with values that are computed again
  bool attends = false;           // it had kernels of attention
};

// `off` are the passes that are left out. The plan is the first within the limit, or the last that was tried.
Tried try_plan(const ir::Program& program, const Target& target, const Options& options,
               const std::vector<std::string>& off) {
  Tried tried;
  Plan& out = tried.plan;
  out.target = target;
  out.options = options;
  out.program = program;
  out.made = true;
  const Options with{off, options.memory_limit};
  out.optimized = optimized(program, target, with, out.log);
  const size_t over_accumulations = out.log.size();
  auto schedule = [&] {
    out.scheduled = scheduled(lowered(out.optimized, out.log), target, with, out.log);
    out.memory = plan_memory(out.scheduled, target);
  };
  schedule();
  const int64_t limit = options.memory_limit;
  tried.needed = tried.least = out.memory.bytes;
  if (limit == 0 || tried.needed <= limit) return tried;
  tried.attends = std::any_of(out.scheduled.kernels.begin(), out.scheduled.kernels.end(), loop::attention);

  // How much is live is estimated from the accumulations. Only a plan shows how much memory they take: scheduling fuses
  // some buffers away, and adds others. If it is too much, the next estimate must be lower by the difference.
  const ir::Program kept = out.optimized;
  std::vector<int64_t> bytes(kept.buffers.size(), 0);
  for (const Placement& p : out.memory.placements)
    if (size_t(p.buffer) < bytes.size()) bytes[size_t(p.buffer)] = p.bytes;
  std::vector<optimize::Group> groups;
  Log unused;
  if (tried.attends && target.kind == Target::Kind::cpu) groups = attention_groups(lowered(kept, unused));
  int64_t goal = limit;
  for (int round = 0; round < kMostRounds && goal > 0; ++round) {
    out.log.resize(over_accumulations);
    int64_t estimated = 0;
    out.optimized = rematerialised(kept, bytes, goal, groups, estimated, out.log);
    schedule();
    tried.least = std::min(tried.least, out.memory.bytes);
    if (out.memory.bytes <= limit || estimated > goal) break;  // it cannot be lower
    goal = std::min(goal, estimated) - std::max(out.memory.bytes - limit, limit / kLeastFall);
  }
  return tried;
}

}  // namespace

Plan make_plan(const ir::Program& program, const Target& target, const Options& options) {
  check(options);
  const int64_t limit = options.memory_limit;
  int64_t needed = 0, least = 0;
  std::vector<std::vector<std::string>> candidates = {options.off};  // what is left out
  for (size_t c = 0; c < candidates.size(); ++c) {
    Tried tried = try_plan(program, target, options, candidates[c]);
    if (limit == 0 || tried.plan.memory.bytes <= limit) return std::move(tried.plan);
    needed = c == 0 ? tried.needed : needed, least = c == 0 ? tried.least : std::min(least, tried.least);
    // Values that are computed again may separate the kernels of attention, whose scores then need memory: it can be
    // less without this pass, whose results are the same.
    std::vector<std::string> off = candidates[c];
    if (target.kind == Target::Kind::cpu && tried.attends &&
        std::find(off.begin(), off.end(), kAttention) == off.end()) {
      off.emplace_back(kAttention);
      candidates.push_back(std::move(off));
    }
  }
  throw StateError("the program `" + program.name + "` needs " + bytes_text(needed) +
                   " for its buffers, more than the limit of " + bytes_text(limit) +
                   (least < needed
                        ? ". With values that are computed again instead of kept it needs " + bytes_text(least)
                        : ". There is nothing that could be computed again instead of being kept") +
                   ". Try a smaller batch.");
}

}  // namespace caravan::plan
