#include "caravan/schedule/hoist.h"

#include <algorithm>
#include <set>

#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

bool names(const Value& value, Variable variable) {
  return match(
      value, [&](const Load& load) { return load.offset.mentions(variable); },
      [&](const IndexValue& index) { return index.term.mentions(variable); },
      [&](const RandomValue& random) { return random.element.mentions(variable); },
      [](const OneOf<Constant, Apply, Cast, Interleave, AcrossLanes> auto&) { return false; });
}

// The registers that a loop defines or accumulates, and the buffers that it stores to.
struct Changes {
  std::set<Register> registers;
  std::set<BufferId> buffers;

  explicit Changes(const Block& block) {
    for (const Statement& s : block) for_each_change(s, [&](Register r) { registers.insert(r); });
    for_each_access(block, [&](const Access& a) {
      if (a.write) buffers.insert(a.buffer);
    });
  }
};

void hoist(Block& block) {
  rewrite(block, [](Statement& s, Block& out) {
    if (Block* within = inside(s)) hoist(*within);
    if (auto* f = std::get_if<For>(&s)) {
      Changes changes(f->body);
      std::erase_if(f->body, [&](Statement& inside) {
        auto* define = std::get_if<Define>(&inside);
        if (!define || names(define->value, f->variable)) return false;
        bool changes_inside = false;
        for_each_use(inside, [&](Register r) { changes_inside = changes_inside || changes.registers.count(r); });
        auto* load = std::get_if<Load>(&define->value);
        if (changes_inside || (load && (f->extent == 0 || changes.buffers.count(load->buffer)))) return false;
        changes.registers.erase(define->to);
        out.push_back(*define);
        return true;
      });
    }
    out.push_back(std::move(s));
  });
}

}  // namespace

Module hoist(const Module& module) {
  return with_changed_kernels(module, [](Kernel& kernel) { hoist(statements(kernel)); });
}

}  // namespace caravan::schedule
