#include "caravan/schedule/keep_loops.h"

#include <map>
#include <set>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/op.h"

namespace caravan::schedule {

using namespace loop;

namespace {

class Finder {
 public:
  Finder(const Module& module, const Kernel& kernel) : module_(module), kernel_(kernel) {
    for_each_with_path(statements(kernel), [&](const Statement& s, const Path& path) { look(s, loops_of(path)); });
  }
  std::set<Variable> take() { return std::move(found_); }

 private:
  using Loops = std::vector<const For*>;  // around a statement, outermost first

  void look(const Statement& s, const Loops& loops) {
    match(
        s, [&](const Reset& r) { loops_around_[r.to] = loops.size(); },
        [&](const OneOf<Combine, StoreCombine> auto& c) {
          if (c.accumulator == Accumulator::add) combine(c, loops);
        },
        [](const OneOf<Define, CombineFirst, Store, StoreFirst, Move, Barrier, Prefetch, For, If> auto&) {});
  }
  void combine(const Combine& c, const Loops& loops) {
    const RegisterType& total = kernel_.registers[size_t(c.to)];
    if (!is_float(total) || total.width > 1) return;
    add({loops.begin() + std::ptrdiff_t(loops_around_.at(c.to)), loops.end()});
  }
  // The C compiler may keep the element in a register, like an accumulator.
  void combine(const StoreCombine& c, const Loops& loops) {
    if (c.buffer.is_local() || !is_float(module_.buffers[size_t(c.buffer)].dtype)) return;
    Loops nest;
    for (const For* loop : loops)
      if (coefficient(c.offset, loop->variable) == 0) nest.push_back(loop);
    add(nest);
  }

  void add(const Loops& nest) {  // all loops of one sum
    if (nest.size() < 2) return;
    bool ordered = true;
    for_each_access(nest[0]->body,
                    [&](const Access& a) { ordered = ordered && (a.write || in_order(*a.offset, nest)); });
    if (ordered) return;
    for (size_t k = 1; k < nest.size(); ++k)
      if (nest[k]->kind == LoopKind::serial) found_.insert(nest[k]->variable);
  }
  // Are elements read in the order of memory? The stride of the outermost loop does not matter, because GCC unrolls the
  // loops inside of it.
  static bool in_order(const Term& offset, const Loops& nest) {
    int64_t outside = INT64_MAX;
    for (size_t k = 1; k < nest.size(); ++k) {
      const int64_t step = coefficient(offset, nest[k]->variable);
      if (step < 0 || step > outside) return false;
      if (step > 0) outside = step;
    }
    return true;
  }

  const Module& module_;
  const Kernel& kernel_;
  std::map<Register, size_t> loops_around_;  // by accumulator: how many loops are around its reset
  std::set<Variable> found_;
};

void mark(Block& block, const std::set<Variable>& variables) {
  for_each_of<For>(block, [&](For& f) {
    if (variables.count(f.variable)) f.unroll = Unroll::never;
  });
}

}  // namespace

Module keep_loops(const Module& module) {
  return with_changed_kernels(module, [&](Kernel& kernel) { mark(statements(kernel), Finder(module, kernel).take()); });
}

}  // namespace caravan::schedule
