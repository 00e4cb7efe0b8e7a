#include "caravan/schedule/map_to_grid.h"

#include <algorithm>
#include <map>
#include <set>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/op.h"
#include "caravan/schedule/gpu_columns.h"
#include "caravan/schedule/gpu_products.h"
#include "caravan/schedule/gpu_scatters.h"
#include "caravan/schedule/narrow_indices.h"
#include "caravan/schedule/outer_loops.h"
#include "caravan/target/prelude_sizes.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

// The only loop or guard of a block in which all other statements are definitions that come before it; null if there is
// none, or if a definition loads what the block overwrites.
Statement* only_nest(Block& block) {
  if (block.empty() || !inside(block.back()) || overwrites_loads(block)) return nullptr;
  return after_definitions(block) ? &block.back() : nullptr;
}

// Moves the guard at the end of a block into the loop that it contains, if it contains nothing else: the guard is then
// asked in every iteration.
bool sink_guard(Block& block) {
  Statement* last = only_nest(block);
  If* guard = last ? std::get_if<If>(last) : nullptr;
  Statement* within = guard ? only_nest(guard->body) : nullptr;
  while (within && std::holds_alternative<If>(*within) && sink_guard(guard->body)) within = only_nest(guard->body);
  For* loop = within ? std::get_if<For>(within) : nullptr;
  if (!loop) return false;
  For moved = std::move(*loop);
  guard->body.pop_back();
  Block body = std::move(guard->body);
  append(body, std::move(moved.body));
  Block guarded;
  guarded.push_back(If{std::move(guard->where), std::move(body)});
  moved.body = std::move(guarded);
  *last = std::move(moved);
  return true;
}

// The loop that a block consists of, beside definitions, after moving guards into it; null if there is none.
For* only_loop(Block& block) {
  Statement* last = only_nest(block);
  if (last && std::holds_alternative<If>(*last) && sink_guard(block)) last = only_nest(block);
  return last ? std::get_if<For>(last) : nullptr;
}

bool can_be_grid(const For& loop) {
  return loop.kind == LoopKind::serial && independent(loop.variable, loop.extent, loop.body);
}

// In a nest whose outermost loop must run in order, brings an independent loop of it to the outside.
bool interchange(Block& block) {
  For* outer = only_loop(block);
  if (!outer) return false;
  std::vector<For*> nest = {outer};
  while (For* next = only_loop(nest.back()->body)) nest.push_back(next);
  for (size_t k = 1; k < nest.size(); ++k) {
    // Definitions before the loop stay where they are, and so must not name its variable: they cannot, being outside.
    For trial{nest[k]->variable, nest[k]->extent, LoopKind::serial, {}};
    Block copy;
    copy.push_back(*outer);
    Block* at = &copy;
    for (size_t n = 0; n < k; ++n) at = &std::get<For>(at->back()).body;
    Block body = std::move(std::get<For>(at->back()).body);
    at->pop_back();
    append(*at, std::move(body));
    trial.body = std::move(copy);
    if (!independent(trial.variable, trial.extent, trial.body)) continue;
    block.back() = std::move(trial);
    return true;
  }
  return false;
}

class Mapper {
 public:
  Mapper(const Module& module, Kernel& kernel, const Target& target)
      : module_(module), kernel_(kernel), target_(target) {}

  void run() {
    if (gather_scatter(kernel_, target_)) return;
    std::vector<For*> outer = grid_loops();
    if (mark_product(module_, kernel_, outer, target_)) return;
    if (outer.empty()) {
      Block once;
      once.push_back(For{add_variable(kernel_, "once"), 1, LoopKind::serial, std::move(statements(kernel_))});
      statements(kernel_) = std::move(once);
      outer.push_back(&std::get<For>(statements(kernel_)[0]));
    }
    Block& body = outer.back()->body;
    int64_t groups = 1;
    for (size_t k = outer.size(); k-- > 0;) {
      outer[k]->kind = LoopKind::grid, outer[k]->chunk = groups;
      groups *= outer[k]->extent;
    }
    const Choice choice = choose(*outer.back(), groups);
    kernel_.grid = choice.grid;
    if (kernel_.grid.lanes > 1) share(body);
    if (choice.columns > 1) take_columns(kernel_, outer, choice.columns);
  }

 private:
  std::vector<For*> grid_loops() {
    std::vector<For*> out;
    Block* block = &statements(kernel_);
    while (true) {
      For* loop = only_loop(*block);
      if (!loop) return out;
      if (!can_be_grid(*loop)) {
        if (loop->kind != LoopKind::serial || !interchange(*block)) return out;
        loop = only_loop(*block);
      }
      out.push_back(loop);
      block = &loop->body;
    }
  }

  // --- how many lanes ---

  // What the loops directly inside of a block are like for lanes. Loops in guards count as well.
  struct Inner {
    bool shared = true;         // can lanes share all of them?
    int64_t iterations = 0;     // of the longest nest
    int along = 0, beside = 0;  // accesses with stride 1 along the inner loops, and along the innermost grid loop
    struct Row {
      int loops = 0;  // that read it
      int64_t bytes = 0;
    };
    std::map<BufferId, Row> rows;  // that a group reads along the inner loops
    // Bytes of those that it reads more than once.
    int64_t read_again() const {
      int64_t out = 0;
      for (const auto& [buffer, row] : rows) out += row.loops > 1 ? row.bytes : 0;
      return out;
    }
  };
  void look(const Block& block, Variable grid, Inner& out) const {
    for (const Statement& s : block)
      match(
          s,
          [&](const For& loop) {
            out.shared = out.shared && loop.kind == LoopKind::serial && shared_by_lanes(loop) && adds_one_way(loop);
            Block copy = {loop};
            int64_t iterations = 1;
            Variable innermost = -1;
            for (For* nested : nest_of(copy)) iterations *= nested->extent, innermost = nested->variable;
            out.iterations = std::max(out.iterations, iterations);
            const bool guarded = find_of<If>(loop.body, [](const If&) { return true; }) != nullptr;
            std::set<BufferId> read;
            for_each_access(loop.body, [&](const Access& a) {
              const int64_t along = coefficient(*a.offset, innermost), beside = coefficient(*a.offset, grid);
              // What all groups read alike stays in a cache, and counts only where guards leave out most of the rest.
              out.along += along == 1 && (beside != 0 || guarded);
              out.beside += beside == 1 && along != 0;
              if (a.write || along != 1 || beside == 0 || !read.insert(a.buffer).second) return;
              Inner::Row& row = out.rows[a.buffer];
              row.loops += 1;
              row.bytes = std::max(row.bytes, iterations * bytes(module_.buffers[size_t(a.buffer)].dtype));
            });
          },
          [&](const If& guard) { look(guard.body, grid, out); },
          // The position of a winner is kept in memory between iterations: one thread must see all of them.
          [&](const OneOf<StoreFirst, CombineFirst> auto&) { out.shared = false; },
          [](const OneOf<Define, Reset, Combine, Store, StoreCombine, Move, Barrier, Prefetch> auto&) {});
  }
  // Is each total of the loop combined by one accumulator? Only then has it a neutral start in every lane.
  static bool adds_one_way(const For& loop) {
    std::map<Register, Accumulator> known;
    bool out = true;
    for_each_of<Combine>(loop.body, [&](const Combine& c) {
      out = out && known.emplace(c.to, c.accumulator).first->second == c.accumulator;
    });
    return out;
  }

  struct Choice {
    Grid grid;
    int64_t columns = 1;  // iterations of the innermost grid loop that a group takes at a time
  };
  Choice choose(const For& innermost, int64_t groups) const {
    Inner inner;
    look(innermost.body, innermost.variable, inner);
    const Gpu& gpu = target_.gpu;
    if (!inner.shared || inner.iterations < gpu.least_shared) return {in_blocks(1, groups)};
    const int64_t threads = gpu.multiprocessors * gpu.threads_in_flight;
    if (inner.beside > inner.along) {
      // Columns that a thread takes together have 16 bytes of a row each, and so a few of them side by side are enough.
      const int64_t columns = most_columns(module_, innermost, gpu);
      if (columns > 1 && gpu.least_pieces * gpu.most_spread <= inner.iterations &&
          2 * groups / columns * gpu.most_spread >= threads) {
        groups /= columns;
        int64_t lanes = gpu.most_spread;
        while (lanes > gpu.warp / gpu.least_beside && groups * lanes > 2 * threads) lanes /= 2;
        return {{int(lanes), true, int(gpu.least_beside * lanes)}, columns};
      }
      int64_t lanes = 1;
      // Lanes have few bytes on their way from memory at a time, so that more of them are needed than elsewhere.
      while (lanes < gpu.most_spread && gpu.lane_iterations * lanes <= inner.iterations &&
             groups * lanes * (lanes == 1 ? 2 : 1) <= threads)
        lanes *= 2;
      // Neighbouring groups of a block read neighbours in memory: a warp of them, or fewer if there are few groups.
      int64_t beside = gpu.warp;
      while (beside > gpu.least_beside && groups < beside * gpu.multiprocessors) beside /= 2;
      return {lanes == 1 ? in_blocks(1, groups) : Grid{int(lanes), true, int(beside * lanes)}};
    }
    // The rows of all groups at once do not at once stay in the cache until they are read again, if they are long: then
    // there are fewer groups, of more lanes.
    int64_t lanes = gpu.warp;
    auto too_long = [&] { return std::min(groups, threads / lanes) * inner.read_again() > gpu.rows_in_cache; };
    auto least_iterations = [&] { return lanes < gpu.threads ? gpu.lane_iterations : gpu.large_block_iterations; };
    while (lanes < gpu.most_threads && least_iterations() * lanes <= inner.iterations &&
           (groups * lanes * 2 <= threads || too_long())) {
      lanes *= 2;
      while (gpu.most_threads / lanes > gpu.barriers) lanes *= 2;  // each group of several warps needs a barrier
    }
    return {in_blocks(lanes, groups)};
  }
  // Blocks of threads, smaller ones if there are few, so that all multiprocessors have some.
  Grid in_blocks(int64_t lanes, int64_t groups) const {
    const Gpu& gpu = target_.gpu;
    int64_t threads = std::max(gpu.threads, lanes);
    while (threads / 2 >= std::max(2 * gpu.warp, lanes) && groups * lanes < threads * gpu.multiprocessors) threads /= 2;
    return {int(lanes), false, int(threads)};
  }

  // --- sharing ---

  // The loop of a block and those directly inside of it that lanes can share together with it.
  static std::vector<For*> nest_of(Block& block) {
    std::vector<For*> out;
    for (For* loop = std::get_if<For>(&block.back()); loop; loop = only_loop(loop->body)) {
      if (loop->kind != LoopKind::serial || !shared_by_lanes(*loop)) break;
      out.push_back(loop);
    }
    return out;
  }

  // Shares the loops of a block that all lanes of a group execute.
  void share(Block& block) {
    rewrite(block, [&](Statement& s, Block& out) {
      wait_for(s, out);
      match(
          s, [&](For& loop) { share(std::move(loop), out); },
          [&](If& guard) { share(guard.body), out.push_back(std::move(guard)); },
          [&](const OneOf<Store, StoreCombine> auto&) { out.push_back(by_one(std::move(s))); },
          [&](const OneOf<Define, Reset, Combine, CombineFirst, StoreFirst, Move, Barrier, Prefetch> auto&) {
            out.push_back(std::move(s));
          });
    });
  }
  // Executed by the first lane only.
  Statement by_one(Statement s) {
    For out{add_variable(kernel_, "lane"), 1, LoopKind::lanes, {}, 1};
    out.body.push_back(std::move(s));
    return out;
  }
  void share(For loop, Block& out) {
    std::vector<std::pair<Register, Accumulator>> totals;  // that the loop adds to and does not reset
    std::set<Register> own;
    for_each_of<Reset>(loop.body, [&](const Reset& r) { own.insert(r.to); });
    for_each_of<Combine>(loop.body, [&](const Combine& c) {
      const std::pair<Register, Accumulator> total{c.to, c.accumulator};
      if (!own.count(c.to) && std::find(totals.begin(), totals.end(), total) == totals.end()) totals.push_back(total);
    });
    Block block;
    block.push_back(std::move(loop));
    std::vector<For*> nest = nest_of(block);
    int64_t iterations = 1;
    for (size_t k = nest.size(); k-- > 0;) {
      nest[k]->kind = LoopKind::lanes, nest[k]->chunk = iterations;
      iterations *= nest[k]->extent;
    }
    std::map<Register, Register> parts;  // the total of each lane
    for (const auto& [total, accumulator] : totals) {
      const RegisterType type = kernel_.registers[size_t(total)];
      parts[total] = add_register(kernel_, type);
      out.push_back(Reset{parts[total], neutral(accumulator, type.dtype)});
    }
    rename(block, {[&](Register r) { return parts.count(r) ? parts.at(r) : r; }, nullptr, nullptr});
    append(out, std::move(block));
    for (const auto& [total, accumulator] : totals) {
      const Register all = add_register(kernel_, kernel_.registers[size_t(total)]);
      out.push_back(Define{all, AcrossLanes{accumulator, parts.at(total)}});
      out.push_back(Combine{total, accumulator, all});
    }
  }

  // A lane may see what another one stored, or store what another one reads, only after a barrier.
  void wait_for(const Statement& s, Block& out) {
    std::set<BufferId> reads, writes;
    for_each_access(s, [&](const Access& a) { (a.write ? writes : reads).insert(a.buffer); });
    auto any = [](const std::set<BufferId>& of, const std::set<BufferId>& in) {
      return std::any_of(of.begin(), of.end(), [&](BufferId id) { return in.count(id) > 0; });
    };
    if (any(reads, written_) || any(writes, written_) || any(writes, read_)) {
      out.push_back(Barrier{});
      written_.clear(), read_.clear();
    }
    if (std::holds_alternative<If>(s)) return;  // its statements are looked at one by one
    written_.insert(writes.begin(), writes.end()), read_.insert(reads.begin(), reads.end());
  }

  const Module& module_;
  Kernel& kernel_;
  const Target& target_;
  std::set<BufferId> written_, read_;  // since the last barrier
};

}  // namespace

Module map_to_grid(const Module& module, const Target& target) {
  Module out = module;
  out.kernels.clear();
  for (const Kernel& kernel : module.kernels) {
    auto all = [](const For&) { return true; };
    for (Kernel& part : outer_loops(kernel, all)) out.kernels.push_back(std::move(part));
  }
  for (Kernel& kernel : out.kernels)
    if (has_statements(kernel)) Mapper(out, kernel, target).run();
  for (Kernel& kernel : out.kernels) {
    if (kernel.grid.lanes > 1 && has_statements(kernel))
      kernel.grid.shared_bytes = std::max(kernel.grid.shared_bytes, prelude_sizes::kAcrossBytes);
    kernel.grid.narrow = has_narrow_indices(out, kernel, target.gpu.most_narrow);
  }
  return out;
}

}  // namespace caravan::schedule
