#include "caravan/schedule/fuse.h"

#include <algorithm>
#include <map>
#include <set>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/op.h"
#include "caravan/target/compile_times.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

// Are all statements before the last one definitions?
bool defines_before_last(const Block& block) {
  return !block.empty() && std::all_of(block.begin(), block.end() - 1,
                                       [](const Statement& s) { return std::holds_alternative<Define>(s); });
}

// The perfect loop nest of a kernel: loops each of which contains only the next one. Before the outermost loop there
// may be definitions, which the pass `hoist` has moved there.
std::vector<const For*> perfect_nest(const Kernel& kernel) {
  std::vector<const For*> out;
  const Block* block = &statements(kernel);
  while (block->size() == 1 || (out.empty() && defines_before_last(*block))) {
    auto* f = std::get_if<For>(&block->back());
    if (!f) break;
    out.push_back(f);
    block = &f->body;
  }
  return out;
}

// The loops at the end of a kernel, each the last statement of the one around it. A statement that is appended to the
// body of one of them runs after everything else in that iteration.
std::vector<const For*> last_loops(const Kernel& kernel) {
  std::vector<const For*> out;
  const Block* block = &statements(kernel);
  while (!block->empty()) {
    auto* f = std::get_if<For>(&block->back());
    if (!f) break;
    out.push_back(f);
    block = &f->body;
  }
  return out;
}

// The depth of the deepest loop nest in a block.
size_t loop_depth(const Block& block) {
  size_t out = 0;
  for (const Statement& s : block)
    out = std::max(
        out, match(
                 s, [](const For& f) { return 1 + loop_depth(f.body); }, [](const If& i) { return loop_depth(i.body); },
                 [](const Simple auto&) { return size_t(0); }));
  return out;
}

bool has_partial_sums(const Block& block) {
  return find_of<For>(block, [](const For& f) { return f.lanes > 0; });
}
bool has_products(const Block& block) {
  return find_of<Combine>(block, [](const Combine& c) { return c.factor >= 0; });
}
bool calls_function(const Block& block) {
  return find_of<Define>(block, [](const Define& define) {
    auto* apply = std::get_if<Apply>(&define.value);
    return apply && !is_arithmetic(apply->op);
  });
}

// The accesses of two kernels to a buffer that both touch.
struct Meeting {
  std::vector<std::pair<const Term*, size_t>> first;  // offset, and how many of last_loops() are around it
  std::vector<const Term*> second;
  bool written = false;
};

class Fuser {
 public:
  // Without a GPU, for a processor.
  Fuser(const Module& module, const Gpu* gpu)
      : gpu_(gpu),
        out_(module),
        writers_(module.buffers.size()),
        readers_(module.buffers.size()),
        old_value_(module.buffers.size(), -1) {
    for (const auto& a : module.assignments) old_value_[size_t(a.value)] = a.state;
    for (size_t k = 0; k < module.kernels.size(); ++k) place_.push_back(int(k));
    for (const Kernel& kernel : module.kernels) most_flops_.push_back(count_flops(kernel));
    if (gpu_) find_depths();
  }

  Module run() {
    size_t first = 0;  // of the gradient and its updates that are merged together
    for (size_t j = 0; j < out_.kernels.size(); ++j) {
      for_each_access(out_.kernels[j], [&](const loop::Access& a) {
        if (auto& all = writers_[size_t(a.buffer)]; a.write && (all.empty() || all.back() != int(j)))
          all.push_back(int(j));
        if (auto& all = readers_[size_t(a.buffer)]; !a.write && (all.empty() || all.back() != int(j)))
          all.push_back(int(j));
      });
      if (is_read_by_update(j)) continue;
      for (size_t k = j; k > first; --k) try_merge(k - 1, k, false);
      for (size_t k = first; k <= j; ++k)
        if (place_[k] == int(k)) merge_all(int(k));
      first = j + 1;
    }
    std::vector<Kernel> kept;
    for (size_t k = 0; k < out_.kernels.size(); ++k)
      if (place_[k] == int(k)) kept.push_back(std::move(out_.kernels[k]));
    out_.kernels = std::move(kept);
    return std::move(out_);
  }

 private:
  // The kernel that now contains kernel k.
  int place(int k) {
    if (k < 0) return k;
    while (place_[size_t(k)] != k) k = place_[size_t(k)] = place_[size_t(place_[size_t(k)])];
    return k;
  }

  // Does the next kernel update a state with what kernel j computes? Such a gradient is merged with the update first.
  // Merged into a kernel before the last reader of the state, it would have to be stored for the update.
  bool is_read_by_update(size_t j) const {
    if (j + 1 >= out_.kernels.size()) return false;
    std::set<BufferId> computed;
    for_each_access(out_.kernels[j], [&](const loop::Access& a) {
      if (a.write) computed.insert(a.buffer);
    });
    bool reads = false, updates = false;
    for_each_access(out_.kernels[j + 1], [&](const loop::Access& a) {
      reads = reads || (!a.write && computed.count(a.buffer));
      updates = updates || (a.write && old_value_[size_t(a.buffer)] >= 0);
    });
    return reads && updates;
  }
  // How many kernels have to run one after the other before each, as they are before fusion. That a state is stored
  // after its readers does not count: this is what is to be decided.
  void find_depths() {
    std::vector<int> computed(out_.buffers.size(), 0);  // by buffer: kernels until it is written
    for (const Kernel& kernel : out_.kernels) {
      int depth = 0;
      for_each_access(kernel, [&](const loop::Access& a) {
        if (!a.write) depth = std::max(depth, computed[size_t(a.buffer)]);
      });
      for_each_access(kernel, [&](const loop::Access& a) {
        if (int& until = computed[size_t(a.buffer)]; a.write) until = std::max(until, depth + 1);
      });
      depths_.push_back(depth);
    }
  }
  // Would the product of kernel i have to wait for a kernel that can run at the same time, if it stored the new values
  // that kernel j does? That kernel reads an old value, and runs no earlier: in backpropagation, the gradient of a
  // layer's input beside that of its weight.
  bool would_wait(size_t i, size_t j) {
    bool out = false;
    for_each_access(out_.kernels[j], [&](const loop::Access& a) {
      const BufferId state = a.write ? old_value_[size_t(a.buffer)] : -1;
      if (state < 0 || out_.buffers[size_t(state)].shape.elements() < gpu_->least_apart) return;
      for (const int reader : readers_[size_t(state)])
        if (const auto at = size_t(place(reader)); at != i && at != j)
          out = out || depths_[size_t(reader)] >= depths_[i];
    });
    return out;
  }
  void merge_all(int j) {  // the merged kernel may be merged further
    for (int up; (up = merge_up(j)) >= 0; j = up) {
    }
  }

  // Merges kernel j into an earlier one and returns the number of that one; -1 if there is none.
  int merge_up(int j) {
    // The last kernel that must stay before kernel j; the kernels after it are independent of j.
    int barrier = -1, source = -1;
    std::set<int, std::greater<>> beside;  // the last kernels that read the same buffers
    auto after_readers = [&](BufferId id) {
      for (int reader : readers_[size_t(id)])
        if (int at = place(reader); at < j) barrier = std::max(barrier, at);
    };
    for_each_access(out_.kernels[size_t(j)], [&](const loop::Access& a) {
      for (int first : writers_[size_t(a.buffer)]) {
        const int writer = place(first);
        if (writer >= j || a.write) continue;  // kernels that write other slices of a buffer may come in any order
        barrier = std::max(barrier, writer), source = std::max(source, writer);
      }
      if (a.write) {
        after_readers(a.buffer);
        if (BufferId state = old_value_[size_t(a.buffer)]; state >= 0) after_readers(state);
        return;
      }
      const std::vector<int>& all = readers_[size_t(a.buffer)];
      for (size_t k = all.size(); k-- > 0 && all.size() - k <= kMostCandidates;)
        if (int at = place(all[k]); at < j) beside.insert(at);
    });
    for (const BufferId id : out_.kernels[size_t(j)].after)
      for (int first : writers_[size_t(id)])
        if (const int writer = place(first); writer < j) barrier = std::max(barrier, writer);
    if (source >= 0 && source == barrier && try_merge(size_t(source), size_t(j), false)) return source;
    size_t tried = 0;
    for (int i : beside)
      if (i >= barrier && tried++ < kMostCandidates && try_merge(size_t(i), size_t(j), true)) return i;
    return -1;
  }

  bool try_merge(size_t i, size_t j, bool must_share) {
    const Kernel &a = out_.kernels[i], &b = out_.kernels[j];
    if (a.comments.size() + b.comments.size() > kCompileTimes.most_accumulations) return false;
    if (has_products(statements(a)) && has_products(statements(b))) return false;
    if (must_follow(b, a)) return false;
    if (gpu_ && has_products(statements(a)) && would_wait(i, j)) return false;
    if (!gpu_ && !has_loop(statements(a)) && !has_loop(statements(b)) && share_state(a, b)) return merge(i, j, 0), true;
    const std::vector<const For*> loops_a = last_loops(a), loops_b = perfect_nest(b);
    size_t most = 0;  // number of outer loops with equal extents
    while (most < std::min(loops_a.size(), loops_b.size()) && loops_a[most]->extent == loops_b[most]->extent) ++most;
    if (most == 0) return false;
    const std::map<BufferId, Meeting> meetings = meetings_of(a, loops_a, b);
    const auto inside_a = extents_of(statements(a)), inside_b = extents_of(statements(b));
    for (size_t depth = most; depth > 0; --depth) {
      if (!keeps_cost(loops_a, loops_b, depth) || !keeps_lanes(*loops_a[depth - 1], *loops_b[depth - 1])) continue;
      bool shares = !must_share, apart = true;
      for (const auto& [buffer, meeting] : meetings) {
        if (meeting.first.empty() || meeting.second.empty() || (!meeting.written && shares)) continue;
        const bool aligned = same_iterations(meeting, loops_a, inside_a, loops_b, inside_b, depth);
        shares = shares || aligned || same_windows(meeting, loops_a, inside_a, loops_b, inside_b, depth);
        apart = apart && (aligned || !meeting.written);
      }
      if (!shares || !apart) continue;
      merge(i, j, depth);
      return true;
    }
    return false;
  }

  // Numbers of one parameter, such as its count of steps and what follows from it, are one kernel. Those of all
  // parameters are not: the kernels of different parameters are equal, and are compiled once.
  bool share_state(const Kernel& a, const Kernel& b) const {
    std::set<BufferId> states;
    auto is_state = [&](BufferId id) { return std::holds_alternative<ir::StateLeaf>(out_.buffers[size_t(id)].kind); };
    for_each_access(a, [&](const loop::Access& x) {
      if (is_state(x.buffer)) states.insert(x.buffer);
    });
    bool out = false;
    for_each_access(b, [&](const loop::Access& x) { out = out || states.count(x.buffer); });
    return out;
  }

  // Does kernel b come after the whole of a buffer that kernel a writes?
  static bool must_follow(const Kernel& b, const Kernel& a) {
    bool out = false;
    if (!b.after.empty())
      for_each_access(a, [&](const loop::Access& x) {
        out = out || (x.write && std::find(b.after.begin(), b.after.end(), BufferId(x.buffer)) != b.after.end());
      });
    return out;
  }

  // Does fusion not read more from memory? Either all loops are shared, so that only innermost bodies are joined, or at
  // most one loop of each kernel is left inside. With two loops inside, as in a matrix product, a whole operand would
  // be read again in every shared iteration.
  static bool keeps_cost(const std::vector<const For*>& loops_a, const std::vector<const For*>& loops_b, size_t depth) {
    if (depth == loops_a.size() && depth == loops_b.size()) return true;
    return loop_depth(loops_a[depth - 1]->body) <= 1 && loop_depth(loops_b[depth - 1]->body) <= 1;
  }

  // Does fusion keep loops vectorisable? If the iterations of the shared loop have stride 1 in a's inner loops, they
  // are computed as vectors; inner loops of b that have stride 1 themselves would prevent that. Sums in lanes are
  // computed one by one, so that an elementary function of them, fused into the same loop, would not be vectorised.
  bool keeps_lanes(const For& a, const For& b) const {
    if (gpu_) return !has_loop(a.body) || !has_loop(b.body) || !has_lanes(a) || has_lanes(b);
    if (!has_loop(b.body)) return !has_partial_sums(a.body) || !calls_function(b.body);
    return !has_loop(a.body) || has_lanes(a) == has_lanes(b);
  }

  std::map<BufferId, Meeting> meetings_of(const Kernel& a, const std::vector<const For*>& loops_a,
                                          const Kernel& b) const {
    std::map<BufferId, Meeting> out;
    for_each_access(b, [&](const loop::Access& x) {
      Meeting& meeting = out[x.buffer];
      meeting.second.push_back(x.offset), meeting.written = meeting.written || x.write;
      // Treated as a store to the state, so that it can become one.
      if (BufferId state = old_value_[size_t(x.buffer)]; x.write && state >= 0)
        out[state].second.push_back(x.offset), out[state].written = true;
    });
    const Block* block = &statements(a);
    for (size_t depth = 0; depth <= loops_a.size(); ++depth) {
      const bool inner = depth < loops_a.size();
      for (size_t k = 0; k < block->size() - (inner ? 1 : 0); ++k)
        for_each_access((*block)[k], [&](const loop::Access& x) {
          auto met = out.find(x.buffer);
          if (met == out.end()) return;
          met->second.first.push_back({x.offset, depth});
          met->second.written = met->second.written || x.write;
        });
      if (inner) block = &loops_a[depth]->body;
    }
    return out;
  }

  // Does every element that both touch belong to the same iteration of the shared loops? An access of the first kernel
  // that is outside of some shared loops comes before all of their iterations, so that only the loops around it matter.
  static bool same_iterations(const Meeting& meeting, const std::vector<const For*>& loops_a,
                              const std::map<Variable, int64_t>& inside_a, const std::vector<const For*>& loops_b,
                              const std::map<Variable, int64_t>& inside_b, size_t depth) {
    std::vector<Variable> shared_a, shared_b;
    std::vector<int64_t> extents;
    for (size_t level = 1; level <= depth; ++level) {
      shared_a.push_back(loops_a[level - 1]->variable), shared_b.push_back(loops_b[level - 1]->variable);
      extents.push_back(loops_a[level - 1]->extent);
      std::vector<LoopOffset> offsets;
      for (auto [offset, loops] : meeting.first)
        if (std::min(loops, depth) == level) offsets.push_back(loop_offset(*offset, shared_a, inside_a));
      if (offsets.empty()) continue;
      for (const Term* offset : meeting.second) offsets.push_back(loop_offset(*offset, shared_b, inside_b));
      if (!apart(offsets, extents)) return false;
    }
    return true;
  }

  // Does the second kernel read only elements that the first one reads in the same iteration of the shared loops? Other
  // iterations may read them too, as those of overlapping windows do.
  static bool same_windows(const Meeting& meeting, const std::vector<const For*>& loops_a,
                           const std::map<Variable, int64_t>& inside_a, const std::vector<const For*>& loops_b,
                           const std::map<Variable, int64_t>& inside_b, size_t depth) {
    std::vector<Variable> shared_a, shared_b;
    for (size_t level = 0; level < depth; ++level)
      shared_a.push_back(loops_a[level]->variable), shared_b.push_back(loops_b[level]->variable);
    return std::ranges::all_of(meeting.second, [&](const Term* second) {
      const LoopOffset read = loop_offset(*second, shared_b, inside_b);
      const bool moves = std::ranges::find(read.shared, 0) == read.shared.end();  // with every loop
      return read.known && moves && std::ranges::any_of(meeting.first, [&](const auto& first) {
               return first.second >= depth && loop_offset(*first.first, shared_a, inside_a) == read;
             });
    });
  }

  void merge(size_t i, size_t j, size_t depth) {
    Kernel b = std::move(out_.kernels[j]);
    place_[j] = int(i);
    Kernel& a = out_.kernels[i];
    std::vector<const For*> nest_a = last_loops(a), nest_b = perfect_nest(b);
    std::map<Variable, Variable> variables;
    for (size_t d = 0; d < depth; ++d) variables[nest_b[d]->variable] = nest_a[d]->variable;
    for (size_t v = 0; v < b.variables.size(); ++v)
      if (!variables.count(Variable(v)))
        variables[Variable(v)] = Variable(a.variables.size()), a.variables.push_back(b.variables[v]);
    const int registers = int(a.registers.size());
    Block moved(statements(b).begin(), statements(b).end() - (depth > 0 ? 1 : 0));  // what is before its loops
    if (depth > 0) moved.insert(moved.end(), nest_b[depth - 1]->body.begin(), nest_b[depth - 1]->body.end());
    rename(moved, {[&](Register r) { return r + registers; }, [&](Variable v) { return variables.at(v); }, nullptr});
    a.registers.insert(a.registers.end(), b.registers.begin(), b.registers.end());
    a.comments.insert(a.comments.end(), b.comments.begin(), b.comments.end());
    a.origins.insert(a.origins.end(), b.origins.begin(), b.origins.end());
    a.after.insert(a.after.end(), b.after.begin(), b.after.end());
    if (most_flops_[j] >= most_flops_[i]) a.name = b.name, most_flops_[i] = most_flops_[j];
    Block* to = &statements(a);
    for (size_t d = 0; d < depth; ++d) to = &std::get<For>(to->back()).body;
    to->insert(to->end(), std::make_move_iterator(moved.begin()), std::make_move_iterator(moved.end()));
  }

  const Gpu* const gpu_;  // null: for a processor, where loops are computed as vectors
  Module out_;
  std::vector<std::vector<int>> writers_;  // by buffer: the kernels that write it, as numbered before fusion
  std::vector<std::vector<int>> readers_;  // the same for kernels that read it, up to the current one
  std::vector<BufferId> old_value_;        // by buffer: the state to which it is assigned, or -1
  std::vector<int> place_;           // by kernel: itself, or the kernel that it was merged into (a union-find forest)
  std::vector<int> depths_;          // by kernel, for a GPU
  std::vector<int64_t> most_flops_;  // by kernel: of the accumulation that it is named after
};

}  // namespace

Module fuse(const Module& module) { return Fuser(module, nullptr).run(); }
Module fuse_for_gpu(const Module& module, const Target& target) { return Fuser(module, &target.gpu).run(); }
Module fuse_called(const Module& module, const Target& target) {
  const bool called = std::any_of(module.kernels.begin(), module.kernels.end(), [](const Kernel& kernel) {
    const LibraryCall* call = library_call(kernel);
    return call && std::holds_alternative<LibraryCall::Product>(call->function);
  });
  return called ? fuse_for_gpu(module, target) : module;
}

}  // namespace caravan::schedule
