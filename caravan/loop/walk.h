// Walking and rewriting loop IR: what every pass needs, written once.
#pragma once

#include <functional>

#include "caravan/loop/loop.h"

namespace caravan::loop {

// The block inside a statement, or null where it has none: recursion over statements goes through here, so that a new
// kind of statement is seen by all of it.
const Block* inside(const Statement& statement);
Block* inside(Statement& statement);

// The first statement, of the block or of what is inside its statements, of which it is true; null: of none.
template <class Is>
const Statement* find(const Block& block, Is is) {
  for (const Statement& s : block) {
    if (is(s)) return &s;
    if (const Block* within = inside(s))
      if (const Statement* found = find(*within, is)) return found;
  }
  return nullptr;
}

// One access to a buffer. A StoreCombine is a read and a write.
struct Access {
  ir::BufferId buffer;
  const Term* offset;
  bool write;
};
void for_each_access(const Kernel& kernel, const std::function<void(const Access&)>& visit);  // a call's from element 0
void for_each_access(const Block& block, const std::function<void(const Access&)>& visit);
void for_each_access(const Statement& statement, const std::function<void(const Access&)>& visit);
void for_each_inner_access(const Block& block, const std::function<void(const Access&)>& visit);  // of the loops in it

// Likewise of the kernel's locals.
void for_each_local(const Statement& statement, const std::function<void(int local, bool write)>& visit);

// Renames in place: every register through `reg`, every variable through `variable`, every buffer through `buffer`.
// With `part`, every part of an index term is replaced by a term instead.
struct Renaming {
  std::function<Register(Register)> reg;
  std::function<Variable(Variable)> variable;
  std::function<ir::BufferId(ir::BufferId)> buffer;
  std::function<Term(const Term::Part&)> part{};
};
void rename(Block& block, const Renaming& renaming);

// A register or a variable more.
Register add_register(Kernel& kernel, RegisterType type);
Variable add_variable(Kernel& kernel, std::string name);

// The block once more, with registers of its own for what it defines.
Block copied(Kernel& kernel, const Block& block);

// Puts a term in the place of a variable, everywhere inside (the loop over the variable is not inside).
void substitute(Block& block, Variable variable, const Term& term);

bool has_loop(const Block& block);

// Operations on floats, one each, in all iterations of a kernel; guards count as always true.
int64_t count_flops(const Kernel& kernel);

// Registers read by a statement, those of nested blocks included.
void for_each_use(const Statement& statement, const std::function<void(Register)>& visit);
// Registers that a statement defines, resets or accumulates, likewise.
void for_each_change(const Statement& statement, const std::function<void(Register)>& visit);

}  // namespace caravan::loop
