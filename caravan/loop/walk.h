// Walks over the loop IR and rewrites of it that several passes need.
//
// A new kind of statement cannot be overlooked. What treats kinds differently is an exhaustive `match` (base/match.h),
// which does not compile until it has a case for the new kind. Everything else goes through these functions, all of
// which find the statements inside of a statement by `inside`.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <type_traits>

#include "caravan/base/match.h"
#include "caravan/loop/loop.h"

namespace caravan::loop {

// Names several kinds in one case of a match: [](const OneOf<Store, StoreCombine> auto& s) { ... }.
template <class S, class... Kinds>
concept OneOf = (std::same_as<S, Kinds> || ...);
// The kinds without a block inside of them.
template <class S>
concept Simple =
    OneOf<S, Define, Reset, Combine, CombineFirst, Store, StoreCombine, StoreFirst, Move, Barrier, Prefetch>;

// The block inside a statement, or null if it has none.
const Block* inside(const Statement& statement);
Block* inside(Statement& statement);

// Visits every statement of the block, at any depth, before the statements inside of it. If `visit` returns false, the
// walk leaves out what is inside of the statement; a `visit` that returns nothing is shown everything.
template <class B, class Visit>
requires std::same_as<std::remove_const_t<B>, Block>
void for_each_statement(B& block, const Visit& visit) {
  for (auto& s : block) {
    if constexpr (std::is_void_v<decltype(visit(s))>)
      visit(s);
    else if (!visit(s))
      continue;
    if (auto* within = inside(s)) for_each_statement(*within, visit);
  }
}
// Visits the statements of one kind: for_each_of<For>(block, [](const For& loop) { ... }).
template <class Kind, class B, class Visit>
void for_each_of(B& block, const Visit& visit) {
  for_each_statement(block, [&](auto& s) {
    if (auto* found = std::get_if<Kind>(&s)) visit(*found);
  });
}

// The statements around another one, outermost first, from the block on in which a walk began.
using Path = std::vector<const Statement*>;
std::vector<const For*> loops_of(const Path& path);
// Visits every statement as for_each_statement does, with its path: visit(statement, path). The first function begins
// in a block that is inside of the statements of `path`.
template <class Visit>
void for_each_with_path(const Block& block, const Visit& visit, Path& path) {
  for (const Statement& s : block) {
    if constexpr (std::is_void_v<decltype(visit(s, path))>)
      visit(s, path);
    else if (!visit(s, path))
      continue;
    const Block* within = inside(s);
    if (!within) continue;
    path.push_back(&s);
    for_each_with_path(*within, visit, path);
    path.pop_back();
  }
}
template <class Visit>
void for_each_with_path(const Block& block, const Visit& visit) {
  Path path;
  for_each_with_path(block, visit, path);
}

// The first statement of a kind, at any depth, for which `is` holds; null if there is none.
template <class Kind, class Is>
const Kind* find_of(const Block& block, const Is& is) {
  const Kind* out = nullptr;
  for_each_statement(block, [&](const Statement& s) {
    const Kind* found = out ? nullptr : std::get_if<Kind>(&s);
    if (found && is(*found)) out = found;
    return !out;
  });
  return out;
}

// The last statement of a block in which all others are definitions; null if the block has another form.
const Statement* after_definitions(const Block& block);
// The same if it is of one kind, such as the loop of a nest: after_definitions<For>(block).
template <class Kind>
const Kind* after_definitions(const Block& block) {
  const Statement* last = after_definitions(block);
  return last ? std::get_if<Kind>(last) : nullptr;
}

// A copy of the module in which `change(kernel)` was called for each kernel that has statements. If it takes two
// arguments, the first is the new module, to which buffers can be added.
template <class Change>
Module with_changed_kernels(const Module& module, const Change& change) {
  Module out = module;
  for (Kernel& kernel : out.kernels) {
    if (!has_statements(kernel)) continue;
    if constexpr (std::invocable<Change, Kernel&>)
      change(kernel);
    else
      change(out, kernel);
  }
  return out;
}

// Replaces every statement of the block: `replace(statement, out)` appends what takes its place, and may move from it.
// It is not called for the statements inside of others.
template <class Replace>
void rewrite(Block& block, const Replace& replace) {
  Block out;
  for (Statement& s : block) replace(s, out);
  block = std::move(out);
}
void append(Block& to, Block from);

// One access to a buffer. A StoreCombine is a read and a write. A Move counts as an access to its first element; two
// pieces of one size are apart if these differ, because they begin at multiples of their size.
struct Access {
  ir::BufferId buffer;
  const Term* offset;
  bool write;
};
// A library call and attention access their buffers from element 0 on.
void for_each_access(const Kernel& kernel, const std::function<void(const Access&)>& visit);
void for_each_access(const Block& block, const std::function<void(const Access&)>& visit);
void for_each_access(const Statement& statement, const std::function<void(const Access&)>& visit);
// Visits only the accesses in inner loops.
void for_each_inner_access(const Block& block, const std::function<void(const Access&)>& visit);

// The same for accesses to the kernel's locals.
void for_each_local(const Statement& statement, const std::function<void(int local, bool write)>& visit);

// Visits every index term: the offsets of loads and stores, indices that are used as values, conditions.
void for_each_term(const Block& block, const std::function<void(const Term&)>& visit);
void for_each_term(const Statement& statement, const std::function<void(const Term&)>& visit);

// Renames in place: every register by `reg`, every variable by `variable`, every buffer by `buffer`; an empty function
// renames nothing. With `part`, every part of an index term is replaced by a term instead.
struct Renaming {
  std::function<Register(Register)> reg;
  std::function<Variable(Variable)> variable;
  std::function<ir::BufferId(ir::BufferId)> buffer;
  std::function<Term(const Term::Part&)> part{};
};
void rename(Block& block, const Renaming& renaming);

// Adds a register, a variable or a local array to the kernel. If there is a local of that name, the new one gets a
// number, too.
Register add_register(Kernel& kernel, RegisterType type);
Variable add_variable(Kernel& kernel, std::string name);
Variable add_variable(Kernel& kernel, Variable of, const char* suffix);  // named after another one
Memory add_local(Kernel& kernel, Local local);
// Adds a buffer for values that kernels compute. Its name is followed by its number.
Memory add_buffer(Module& module, const std::string& name, DType dtype, int64_t elements, const Source& where = {});

// A copy of the block that defines new registers.
Block copied(Kernel& kernel, const Block& block);

// Replaces a variable by a term everywhere in the block, which must not contain the loop over the variable.
void substitute(Block& block, Variable variable, const Term& term);

bool has_loop(const Block& block);

// Loops around a statement, by their variables.
using Extents = std::map<Variable, int64_t>;
// In which share of the iterations of these loops a guard lets its body run. A condition on several loops, or on
// something else, counts as always true.
double share_entered(const If& guard, const Extents& around);

// The number of floating-point operations in all iterations of a kernel, with guards as in share_entered.
int64_t count_flops(const Kernel& kernel);

// Visits the registers that a statement reads, including those in nested blocks.
void for_each_use(const Statement& statement, const std::function<void(Register)>& visit);
// Visits the registers that a statement defines, resets or accumulates, including those in nested blocks.
void for_each_change(const Statement& statement, const std::function<void(Register)>& visit);

}  // namespace caravan::loop
