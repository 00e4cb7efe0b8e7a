// Walks over the loop IR and rewrites of it that several passes need.
#pragma once

#include <functional>

#include "caravan/loop/loop.h"

namespace caravan::loop {

// The block inside a statement, or null if it has none. All recursion over statements uses this function, so that a new
// kind of statement with a block is handled everywhere.
const Block* inside(const Statement& statement);
Block* inside(Statement& statement);

// The first statement in the block, at any depth, for which `is` holds; null if there is none.
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
// A library call accesses its buffers from element 0 on.
void for_each_access(const Kernel& kernel, const std::function<void(const Access&)>& visit);
void for_each_access(const Block& block, const std::function<void(const Access&)>& visit);
void for_each_access(const Statement& statement, const std::function<void(const Access&)>& visit);
// Visits only the accesses in inner loops.
void for_each_inner_access(const Block& block, const std::function<void(const Access&)>& visit);

// The same for accesses to the kernel's locals.
void for_each_local(const Statement& statement, const std::function<void(int local, bool write)>& visit);

// Renames in place: every register by `reg`, every variable by `variable`, every buffer by `buffer`; an empty function
// renames nothing. With `part`, every part of an index term is replaced by a term instead.
struct Renaming {
  std::function<Register(Register)> reg;
  std::function<Variable(Variable)> variable;
  std::function<ir::BufferId(ir::BufferId)> buffer;
  std::function<Term(const Term::Part&)> part{};
};
void rename(Block& block, const Renaming& renaming);

// Adds a register or a variable to the kernel.
Register add_register(Kernel& kernel, RegisterType type);
Variable add_variable(Kernel& kernel, std::string name);

// A copy of the block that defines new registers.
Block copied(Kernel& kernel, const Block& block);

// Replaces a variable by a term everywhere in the block, which must not contain the loop over the variable.
void substitute(Block& block, Variable variable, const Term& term);

bool has_loop(const Block& block);

// The number of floating-point operations in all iterations of a kernel. Guards count as always true.
int64_t count_flops(const Kernel& kernel);

// Visits the registers that a statement reads, including those in nested blocks.
void for_each_use(const Statement& statement, const std::function<void(Register)>& visit);
// Visits the registers that a statement defines, resets or accumulates, including those in nested blocks.
void for_each_change(const Statement& statement, const std::function<void(Register)>& visit);

}  // namespace caravan::loop
