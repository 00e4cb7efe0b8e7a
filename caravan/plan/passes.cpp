#include "caravan/plan/passes.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>

#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/lower/lower.h"
#include "caravan/optimize/copy_leaves.h"
#include "caravan/optimize/delay_updates.h"
#include "caravan/optimize/free_early.h"
#include "caravan/optimize/gather_operands.h"
#include "caravan/optimize/inline_producers.h"
#include "caravan/optimize/join_parts.h"
#include "caravan/optimize/merge_equal.h"
#include "caravan/optimize/narrow_positions.h"
#include "caravan/optimize/pack_operands.h"
#include "caravan/optimize/rematerialise.h"
#include "caravan/optimize/remove_unused.h"
#include "caravan/optimize/reuse_stored.h"
#include "caravan/optimize/run_forwards.h"
#include "caravan/optimize/share_blocks.h"
#include "caravan/optimize/simplify.h"
#include "caravan/optimize/solve_writes.h"
#include "caravan/optimize/split_long_sums.h"
#include "caravan/optimize/split_sums.h"
#include "caravan/optimize/store_narrow.h"
#include "caravan/schedule/call_products.h"
#include "caravan/schedule/copy_states.h"
#include "caravan/schedule/cpu_attention.h"
#include "caravan/schedule/expand_lanes.h"
#include "caravan/schedule/forward_stores.h"
#include "caravan/schedule/fuse.h"
#include "caravan/schedule/gather_scatters.h"
#include "caravan/schedule/gpu_attention.h"
#include "caravan/schedule/gpu_neighbours.h"
#include "caravan/schedule/gpu_pieces.h"
#include "caravan/schedule/group_kernels.h"
#include "caravan/schedule/hoist.h"
#include "caravan/schedule/keep_best.h"
#include "caravan/schedule/keep_loops.h"
#include "caravan/schedule/lanes_inside.h"
#include "caravan/schedule/local_buffers.h"
#include "caravan/schedule/map_to_grid.h"
#include "caravan/schedule/mark_aligned.h"
#include "caravan/schedule/merge_values.h"
#include "caravan/schedule/narrow_updates.h"
#include "caravan/schedule/order_stages.h"
#include "caravan/schedule/parallelize.h"
#include "caravan/schedule/pick_terms.h"
#include "caravan/schedule/place_collectives.h"
#include "caravan/schedule/place_in_block.h"
#include "caravan/schedule/round_once.h"
#include "caravan/schedule/share_scatters.h"
#include "caravan/schedule/split_loops.h"
#include "caravan/schedule/store_over.h"
#include "caravan/schedule/tile_contractions.h"
#include "caravan/schedule/tile_transposes.h"
#include "caravan/schedule/transpose_rows.h"
#include "caravan/schedule/unroll_lanes.h"
#include "caravan/schedule/update_in_place.h"
#include "caravan/schedule/vectorize.h"

namespace caravan::plan {

namespace {

// When a pass runs. `wished` passes are optimisations and can be switched off. `always` passes are not: later passes
// rely on them, or they choose how sums round. Of these, `lowering` passes also run before loops are shown that are not
// optimised: lowering relies on them, or the loops are those of the order that they choose.
enum class When : uint8_t { wished, always, lowering };
// For which targets it runs.
enum class On : uint8_t { all, cpu, c99, processors, cuda };

template <class T>
struct Pass {
  const char* name;
  T (*run)(const T&) = nullptr;
  T (*run_for)(const T&, const Target&) = nullptr;
  When when = When::wished;
  On on = On::all;

  constexpr Pass(const char* name, T (*run)(const T&), When when = When::wished, On on = On::all)
      : name(name), run(run), when(when), on(on) {}
  constexpr Pass(const char* name, T (*run)(const T&, const Target&), When when = When::wished, On on = On::all)
      : name(name), run_for(run), when(when), on(on) {}

  T operator()(const T& what, const Target& target) const { return run ? run(what) : run_for(what, target); }
  bool is_for(Target::Kind kind) const {
    switch (on) {
      case On::all: return true;
      case On::cpu: return kind == Target::Kind::cpu;
      case On::c99: return kind == Target::Kind::c99;
      case On::processors: return kind != Target::Kind::cuda;
      case On::cuda: return kind == Target::Kind::cuda;
    }
    return false;
  }
};

// Each pass with the reason for its place.
constexpr Pass<ir::Program> kProgramPasses[] = {
    // Gives every result a buffer, so that later passes need no special case for old values.
    {"copy_leaves", optimize::copy_leaves, When::lowering},
    // Early, so that no pass works on what is not needed.
    {"remove_unused", optimize::remove_unused, When::lowering},
    // Before the order of sums is chosen.
    {"solve_writes", optimize::solve_writes},
    // Likewise: it makes contractions.
    {"gather_operands", optimize::gather_operands, When::always, On::processors},
    // Likewise: it chooses the direction of sums.
    {"run_forwards", optimize::run_forwards, When::lowering},
    // Chooses the order of sums before any optimisation, so that none changes a bit.
    {"split_sums", optimize::split_sums, When::lowering},
    // Before inlining, which would move the sum into its readers.
    {"join_parts", optimize::join_parts},
    // So that more bodies are copies, or are equal to each other, for the next two.
    {"simplify", optimize::simplify},
    // So that equal producers do not look like several readers.
    {"merge_equal", optimize::merge_equal},
    // Before loops exist, while index maps are easy to compose.
    {"inline_producers", optimize::inline_producers},
    // A factor of 1 that was a tensor of ones is seen now.
    {"simplify", optimize::simplify},
    // Inlining can make different accumulations equal.
    {"merge_equal", optimize::merge_equal},
    // The next six come after inlining: it decides what is stored,
    {"reuse_stored", optimize::reuse_stored},
    {"store_narrow", optimize::store_narrow},
    {"narrow_positions", optimize::narrow_positions},
    // it would remove the copies that this pass makes,
    {"pack_operands", optimize::pack_operands, When::wished, On::processors},
    // and it would compute the parts that these make again for every reader.
    {"share_blocks", optimize::share_blocks, When::wished, On::cpu},
    {"split_long_sums", optimize::split_long_sums, When::always, On::cuda},
    // Again, for the sums of the parts.
    {"split_sums", optimize::split_sums, When::always, On::cuda},
    // Late: the order of accumulations is the order of kernels.
    {"delay_updates", optimize::delay_updates},
    // After delay_updates, whose order it keeps where it can.
    {"free_early", optimize::free_early},
};
constexpr Pass<loop::Module> kLoopPasses[] = {
    // While every accumulation is a kernel of its own.
    {"gpu_attention", schedule::gpu_attention, When::wished, On::cuda},
    {"cpu_attention", schedule::cpu_attention, When::wished, On::cpu},
    // Before fuse, which adds the update of the table.
    {"gather_scatters", schedule::gather_scatters, When::wished, On::cuda},
    // Before the others, which work within a kernel.
    {"fuse", schedule::fuse, When::wished, On::processors},
    {"fuse", schedule::fuse_for_gpu, When::wished, On::cuda},
    // After fuse: a store and its load become a register.
    {"forward_stores", schedule::forward_stores},
    // After forward_stores, which removes stores that would keep loads in loops.
    {"hoist", schedule::hoist},
    // After hoist, which brings equal values into one block.
    {"merge_values", schedule::merge_values},
    // After merge_values, which makes equal nests of values read the same registers.
    {"keep_best", schedule::keep_best, When::wished, On::processors},
    // After the three before it, because they remove reads of the old state.
    {"update_in_place", schedule::update_in_place},
    // After update_in_place: only then is the rest of the state stored.
    {"narrow_updates", schedule::narrow_updates},
    // While a sum is one loop, which split_loops may cut.
    {"pick_terms", schedule::pick_terms, When::wished, On::cuda},
    // When kernels have their final statements, and before tiles, which are chosen for a group.
    {"group_kernels", schedule::group_kernels, When::wished, On::cpu},
    // When sums have their epilogues, and before the order of their terms is turned into loops.
    {"tile_contractions", schedule::tile_contractions, When::wished, On::cpu},
    // After tile_contractions, which may compute such a sum as a product.
    {"transpose_rows", schedule::transpose_rows, When::wished, On::cpu},
    // After both, whose packed and transposed operands are such copies.
    {"tile_transposes", schedule::tile_transposes, When::wished, On::cpu},
    // Before vectorize, which makes vectors of the columns of a block.
    {"share_scatters", schedule::share_scatters, When::wished, On::cpu},
    // Turns the order that split_sums chose into loops; always, because it decides how sums round.
    {"split_loops", schedule::split_loops, When::always},
    // When loops have their final bodies.
    {"vectorize", schedule::vectorize, When::wished, On::cpu},
    // Instead of vectorize, for C without vector types.
    {"lanes_inside", schedule::lanes_inside, When::always, On::c99},
    // Late: no pass before it need know about threads.
    {"parallelize", schedule::parallelize, When::wished, On::cpu},
    // When all loops are final; without it GCC miscompiles sums.
    {"keep_loops", schedule::keep_loops, When::always, On::processors},
    // Late: makes vectors explicit for the printers.
    {"expand_lanes", schedule::expand_lanes, When::always, On::processors},
    // When loops are final: the passes before it know nothing of buffers that are local.
    {"local_buffers", schedule::local_buffers, When::wished, On::cpu},
    // After both: it looks at the vectors that are loaded from buffers.
    {"mark_aligned", schedule::mark_aligned, When::wished, On::cpu},
    // When sums have their epilogues, and before the rest is shared by threads.
    {"call_products", schedule::call_products, When::wished, On::cuda},
    // After call_products, which makes kernels of what follows a product.
    {"fuse", schedule::fuse_called, When::wished, On::cuda},
    // After call_products, which makes stores of its own.
    {"round_once", schedule::round_once, When::wished, On::cuda},
    // After call_products, whose factors and sums are tensors too.
    {"store_over", schedule::store_over, When::wished, On::cuda},
    // Instead of all passes for vectors and threads of a processor.
    {"map_to_grid", schedule::map_to_grid, When::always, On::cuda},
    // After map_to_grid: it cuts the loops that threads share.
    {"gpu_neighbours", schedule::gpu_neighbours, When::wished, On::cuda},
    // When loops that lanes share have their final sizes.
    {"unroll_lanes", schedule::unroll_lanes, When::wished, On::cuda},
    // When kernels are final.
    {"place_collectives", schedule::place_collectives, When::always},
    // Late: no pass before it need know about library calls.
    {"copy_states", schedule::copy_states, When::always},
    // When all kernels are there.
    {"order_stages", schedule::order_stages, When::always, On::cuda},
    // After order_stages: it looks at stages.
    {"place_in_block", schedule::place_in_block, When::always, On::cuda},
    // Last: no pass before it need know that several elements are accessed together.
    {"gpu_pieces", schedule::gpu_pieces, When::always, On::cuda},
};

// Did a pass change nothing? Of buffers only the number is compared, because a pass that changes a buffer also changes
// an accumulation.
bool same(const ir::Program& p, const ir::Program& q) {
  auto same_accumulation = [](const ir::Accumulation& a, const ir::Accumulation& b) {
    return a.target == b.target && a.accumulator == b.accumulator && a.order == b.order && a.part == b.part &&
           a.after == b.after && a.extents == b.extents && a.where == b.where && a.write == b.write &&
           a.operands == b.operands && a.body == b.body;
  };
  return p.buffers.size() == q.buffers.size() && p.observed == q.observed &&
         std::equal(p.accumulations.begin(), p.accumulations.end(), q.accumulations.begin(), q.accumulations.end(),
                    same_accumulation);
}
size_t count(const ir::Program& p) { return p.accumulations.size(); }
size_t count(const loop::Module& p) { return p.kernels.size(); }

bool same(const ir::Program&, const loop::Module&) { return false; }
bool same(const loop::Module& p, const loop::Module& q) {
  return p.kernels == q.kernels && p.assignments.size() == q.assignments.size();
}

std::vector<std::string> names(bool always) {  // also of those that are always run
  std::vector<std::string> out;
  auto add = [&](const auto& pass) {
    if ((always || pass.when == When::wished) && std::find(out.begin(), out.end(), pass.name) == out.end())
      out.push_back(pass.name);
  };
  for (const auto& pass : kProgramPasses) add(pass);
  for (const auto& pass : kLoopPasses) add(pass);
  return out;
}
bool contains(const std::vector<std::string>& all, const std::string& name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}
}  // namespace

std::vector<std::string> pass_names() { return names(false); }

void check(const Options& options) {
  const std::vector<std::string> wished = pass_names(), all = names(true);
  for (const std::string& off : options.off) {
    if (contains(wished, off)) continue;
    if (contains(all, off))
      throw ConfigError("the pass `" + off + "` cannot be left out: later passes need it, or it decides how sums " +
                        "round. These can: " + joined(wished) + ".");
    throw ConfigError("there is no pass `" + off + "`; these can be left out: " + joined(wished) + ".");
  }
}

namespace {

template <class From, class To>
To run_logged(const char* name, const From& before, const std::function<To(const From&)>& pass, Log& log) {
  const auto start = std::chrono::steady_clock::now();
  To after = pass(before);
  const double milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  log.push_back({name, milliseconds, !same(before, after), count(after), std::is_same_v<To, loop::Module>});
#ifndef NDEBUG
  verify(after);  // ir::verify or loop::verify
#endif
  return after;
}

// Runs those passes that are for the target and `wanted`.
template <class T, class Wanted>
T run_all(std::span<const Pass<T>> passes, T what, const Target& target, Wanted wanted, Log& log) {
  for (const Pass<T>& pass : passes) {
    if (!pass.is_for(target.kind) || !wanted(pass)) continue;
    what = run_logged<T, T>(
        pass.name, what, [&](const T& before) { return pass(before, target); }, log);
  }
  return what;
}

}  // namespace

ir::Program optimized(const ir::Program& program, const Target& target, const Options& options, Log& log) {
  auto wanted = [&](const auto& pass) { return !contains(options.off, pass.name); };
  return run_all<ir::Program>(kProgramPasses, program, target, wanted, log);
}
loop::Module lowered(const ir::Program& program, Log& log) {
  return run_logged<ir::Program, loop::Module>("lower", program, lower::lower, log);
}
loop::Module scheduled(const loop::Module& module, const Target& target, const Options& options, Log& log) {
  auto wanted = [&](const auto& pass) { return !contains(options.off, pass.name); };
  return run_all<loop::Module>(kLoopPasses, module, target, wanted, log);
}
ir::Program rematerialised(const ir::Program& program, const std::vector<int64_t>& bytes, int64_t goal,
                           const std::vector<optimize::Group>& groups, int64_t& live, Log& log) {
  const auto pass = [&](const ir::Program& before) {
    optimize::Rematerialised made = optimize::rematerialise(before, bytes, goal, groups);
    live = made.live;
    return std::move(made.program);
  };
  return run_logged<ir::Program, ir::Program>("rematerialise", program, pass, log);
}

loop::Module unoptimized(const ir::Program& program, const Target& target, Log& log) {
  auto wanted = [](const auto& pass) { return pass.when == When::lowering; };
  return lowered(run_all<ir::Program>(kProgramPasses, program, target, wanted, log), log);
}

}  // namespace caravan::plan
