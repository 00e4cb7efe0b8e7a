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
  Finder(const Module& module, const Kernel& kernel) : module_(module), kernel_(kernel) { walk(statements(kernel)); }
  std::set<Variable> take() { return std::move(found_); }

 private:
  void walk(const Block& block) {
    for (const Statement& s : block) {
      if (auto* r = std::get_if<Reset>(&s)) loops_around_[r->to] = loops_.size();
      if (auto* c = std::get_if<Combine>(&s); c && c->accumulator == Accumulator::add) combine(*c);
      if (auto* c = std::get_if<StoreCombine>(&s); c && c->accumulator == Accumulator::add) combine(*c);
      auto* f = std::get_if<For>(&s);
      if (f) loops_.push_back(f);
      if (const Block* within = inside(s)) walk(*within);
      if (f) loops_.pop_back();
    }
  }
  void combine(const Combine& c) {
    if (!is_float(kernel_.registers[size_t(c.to)])) return;
    add({loops_.begin() + std::ptrdiff_t(loops_around_.at(c.to)), loops_.end()});
  }
  void combine(const StoreCombine& c) {  // the C compiler may keep the element in a register, like an accumulator
    if (!is_float(module_.buffers[size_t(c.buffer)].dtype)) return;
    std::vector<const For*> nest;
    for (const For* loop : loops_)
      if (coefficient(c.offset, loop->variable) == 0) nest.push_back(loop);
    add(nest);
  }

  void add(const std::vector<const For*>& nest) {  // `nest`: all loops of one sum, outermost first
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
  static bool in_order(const Term& offset, const std::vector<const For*>& nest) {
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
  std::vector<const For*> loops_;            // around the current statement, outermost first
  std::map<Register, size_t> loops_around_;  // by accumulator: how many loops are around its reset
  std::set<Variable> found_;
};

void mark(Block& block, const std::set<Variable>& variables) {
  for (Statement& s : block) {
    if (auto* f = std::get_if<For>(&s); f && variables.count(f->variable)) f->unroll = Unroll::never;
    if (Block* within = inside(s)) mark(*within, variables);
  }
}

}  // namespace

Module keep_loops(const Module& module) {
  Module out = module;
  for (Kernel& kernel : out.kernels) mark(statements(kernel), Finder(module, kernel).take());
  return out;
}

}  // namespace caravan::schedule
