#include "caravan/passes/fuse.h"

#include <algorithm>
#include <map>

#include "caravan/loop/rows.h"
#include "caravan/loop/walk.h"

namespace caravan::passes {

using namespace loop;
using ir::BufferId;

namespace {

// The loops at the top of a kernel that contain nothing but the next one.
std::vector<const For*> perfect_nest(const Kernel& kernel) {
  std::vector<const For*> out;
  const Block* block = &kernel.body;
  while (block->size() == 1) {
    auto* f = std::get_if<For>(&block->front());
    if (!f) break;
    out.push_back(f);
    block = &f->body;
  }
  return out;
}

class Fuser {
 public:
  explicit Fuser(const Module& module)
      : out_(module),
        writer_(module.program.buffers.size(), -1),
        reader_(writer_),
        old_value_(writer_),
        merged_(module.kernels.size(), false) {
    for (const auto& a : module.program.assignments) old_value_[size_t(a.value)] = a.state;
  }

  Module run() {
    for (size_t j = 0; j < out_.kernels.size(); ++j) {
      // The last kernel that must stay before this one; those between are independent of it.
      int barrier = -1, source = -1;
      std::vector<std::pair<BufferId, bool>> touched;
      for_each_access(out_.kernels[j].body, [&](const loop::Access& a) {
        touched.push_back({a.buffer, a.write});
        source = std::max(source, a.write ? -1 : writer_[size_t(a.buffer)]);
        barrier = std::max(barrier, writer_[size_t(a.buffer)]);
        if (!a.write) return;
        barrier = std::max(barrier, reader_[size_t(a.buffer)]);
        if (BufferId state = old_value_[size_t(a.buffer)]; state >= 0)
          barrier = std::max(barrier, reader_[size_t(state)]);
      });
      const bool merged = source >= 0 && source == barrier && try_merge(size_t(source), j);
      const int at = merged ? source : int(j);
      for (auto [buffer, write] : touched) {
        int& last = (write ? writer_ : reader_)[size_t(buffer)];
        last = std::max(last, at);
      }
    }
    std::vector<Kernel> kept;
    for (size_t k = 0; k < out_.kernels.size(); ++k)
      if (!merged_[k]) kept.push_back(std::move(out_.kernels[k]));
    out_.kernels = std::move(kept);
    return std::move(out_);
  }

 private:
  bool try_merge(size_t i, size_t j) {
    const Kernel &a = out_.kernels[i], &b = out_.kernels[j];
    if (a.comments.size() + b.comments.size() > kMostAccumulations) return false;
    std::vector<const For*> nest_a = perfect_nest(a), nest_b = perfect_nest(b);
    size_t depth = nest_b.size();
    if (depth == 0 || nest_a.size() < depth) return false;
    if (depth < nest_a.size() && has_loop(nest_b[depth - 1]->body)) return false;  // rows are shared by plain work only
    for (size_t d = 0; d < depth; ++d)
      if (nest_a[d]->extent != nest_b[d]->extent) return false;
    if (!same_rows(a, nest_a, b, nest_b, depth)) return false;
    merge(i, j, depth);
    return true;
  }

  bool same_rows(const Kernel& a, const std::vector<const For*>& nest_a, const Kernel& b,
                 const std::vector<const For*>& nest_b, size_t depth) const {
    std::vector<Variable> shared_a, shared_b;
    std::vector<int64_t> extents;
    for (size_t d = 0; d < depth; ++d) {
      shared_a.push_back(nest_a[d]->variable), shared_b.push_back(nest_b[d]->variable);
      extents.push_back(nest_a[d]->extent);
    }
    auto inside_a = extents_of(a.body), inside_b = extents_of(b.body);
    struct Use {
      std::vector<RowOffset> offsets;
      bool first = false, second = false, written = false;
    };
    std::map<BufferId, Use> uses;
    for_each_access(a.body, [&](const loop::Access& x) {
      Use& use = uses[x.buffer];
      use.offsets.push_back(row_offset(*x.offset, shared_a, inside_a));
      use.first = true, use.written = use.written || x.write;
    });
    for_each_access(b.body, [&](const loop::Access& x) {
      Use& use = uses[x.buffer];
      use.offsets.push_back(row_offset(*x.offset, shared_b, inside_b));
      use.second = true, use.written = use.written || x.write;
    });
    return std::all_of(uses.begin(), uses.end(), [&](const auto& entry) {
      const Use& use = entry.second;
      return !use.first || !use.second || !use.written || apart(use.offsets, extents);
    });
  }

  void merge(size_t i, size_t j, size_t depth) {
    Kernel b = std::move(out_.kernels[j]);
    merged_[j] = true;
    Kernel& a = out_.kernels[i];
    std::vector<const For*> nest_a = perfect_nest(a), nest_b = perfect_nest(b);
    std::map<Variable, Variable> variables;
    for (size_t d = 0; d < depth; ++d) variables[nest_b[d]->variable] = nest_a[d]->variable;
    for (size_t v = 0; v < b.variables.size(); ++v)
      if (!variables.count(Variable(v)))
        variables[Variable(v)] = Variable(a.variables.size()), a.variables.push_back(b.variables[v]);
    const int registers = int(a.registers.size());
    Block moved = nest_b[depth - 1]->body;
    rename(moved, {[&](Register r) { return r + registers; }, [&](Variable v) { return variables.at(v); }, nullptr});
    a.registers.insert(a.registers.end(), b.registers.begin(), b.registers.end());
    a.comments.insert(a.comments.end(), b.comments.begin(), b.comments.end());
    a.name = b.name;
    Block* to = &a.body;
    for (size_t d = 0; d < depth; ++d) to = &std::get<For>(to->front()).body;
    to->insert(to->end(), std::make_move_iterator(moved.begin()), std::make_move_iterator(moved.end()));
  }

  Module out_;
  std::vector<int> writer_, reader_;  // by buffer: the last kernel so far
  std::vector<BufferId> old_value_;   // by buffer: the state whose new value it is
  std::vector<bool> merged_;
};

}  // namespace

Module fuse(const Module& module) { return Fuser(module).run(); }

}  // namespace caravan::passes
