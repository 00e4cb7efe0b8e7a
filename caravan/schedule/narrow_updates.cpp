#include "caravan/schedule/narrow_updates.h"

#include <algorithm>

#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"

namespace caravan::schedule {

using namespace loop;

namespace {

template <class T>
const T* value_of(const std::vector<const Define*>& definitions, Register r) {
  return r >= 0 && definitions[size_t(r)] ? std::get_if<T>(&definitions[size_t(r)]->value) : nullptr;
}

// store of where(variable == symbol, value, what is there)
struct Update {
  const Store* store = nullptr;
  Register value = -1;
  int symbol = -1;
};

class Narrowing {
 public:
  Narrowing(const Module& module, const Kernel& kernel) : module_(module), kernel_(kernel) {
    definitions_.resize(kernel.registers.size(), nullptr);
    for_each_of<Define>(statements(kernel), [&](const Define& d) { definitions_[size_t(d.to)] = &d; });
  }

  // The update that the loop is, if it is nothing else.
  std::optional<Update> of(const For& loop) const {
    Update out;
    bool only = true;  // nothing but definitions and one store
    for_each_statement(loop.body, [&](const Statement& s) {
      if (std::holds_alternative<Define>(s) || inside(s)) return;
      const auto* store = std::get_if<Store>(&s);
      only = only && store && !out.store;
      out.store = store;
    });
    if (!only || !out.store) return std::nullopt;
    const auto* chosen = value_of<Apply>(definitions_, out.store->value);
    if (!chosen || chosen->op != Op::where) return std::nullopt;
    const auto* here = value_of<Apply>(definitions_, chosen->args[0]);
    const auto* old = value_of<Load>(definitions_, chosen->args[2]);
    if (!here || here->op != Op::eq || !old || !(*old == Load{out.store->buffer, out.store->offset}))
      return std::nullopt;
    const auto* position = value_of<IndexValue>(definitions_, here->args[0]);
    const auto* index = value_of<IndexValue>(definitions_, here->args[1]);
    if (!position || !index || position->term != Term::iterator(loop.variable)) return std::nullopt;
    out.value = chosen->args[1];
    if (kernel_.registers[size_t(out.value)] != kernel_.registers[size_t(out.store->value)]) return std::nullopt;
    for (size_t s = 0; s < module_.symbols.size(); ++s)
      if (index->term == Term::symbol(int(s))) out.symbol = int(s);
    if (out.symbol < 0) return std::nullopt;
    const int64_t range = module_.symbols[size_t(out.symbol)].range;
    return range > 0 && range <= loop.extent ? std::optional(out) : std::nullopt;
  }

 private:
  const Module& module_;
  const Kernel& kernel_;
  std::vector<const Define*> definitions_;
};

// Replaces every loop of the block that is an update, at any depth. Returns whether there was one.
bool narrow(Block& block, const Narrowing& narrowing) {
  bool changed = false;
  Block out;
  for (Statement& s : block) {
    auto* loop = std::get_if<For>(&s);
    const auto update = loop ? narrowing.of(*loop) : std::nullopt;
    if (update) {
      for_each_of<Store>(loop->body, [&](Store& store) { store.value = update->value; });
      substitute(loop->body, loop->variable, Term::symbol(update->symbol));
      std::move(loop->body.begin(), loop->body.end(), std::back_inserter(out));
    } else {
      if (Block* within = inside(s)) changed = narrow(*within, narrowing) || changed;
      out.push_back(std::move(s));
    }
    changed = changed || update;
  }
  block = std::move(out);
  return changed;
}
// Drops definitions that nothing reads. Returns whether there was one.
bool drop_unread(Block& all, Block& block) {
  bool dropped = false;
  for (size_t k = block.size(); k-- > 0;) {
    if (Block* within = inside(block[k])) dropped = drop_unread(all, *within) || dropped;
    const auto* define = std::get_if<Define>(&block[k]);
    if (!define) continue;
    bool read = false;
    for (const Statement& s : all) for_each_use(s, [&](Register r) { read = read || r == define->to; });
    if (!read) block.erase(block.begin() + ptrdiff_t(k)), dropped = true;
  }
  return dropped;
}

}  // namespace

Module narrow_updates(const Module& module) {
  Module out = module;
  if (module.symbols.empty()) return out;
  for (size_t k = 0; k < out.kernels.size(); ++k) {
    if (!has_statements(out.kernels[k])) continue;
    Block& block = statements(out.kernels[k]);
    if (narrow(block, Narrowing(module, module.kernels[k])))
      while (drop_unread(block, block)) {
      }
  }
  return out;
}

}  // namespace caravan::schedule
