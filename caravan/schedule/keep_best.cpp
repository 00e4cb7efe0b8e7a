#include "caravan/schedule/keep_best.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// A nest that does nothing but combine values in registers, by one statement of this kind.
template <class Kind>
std::optional<Kind> only_combination(const Statement& nest) {
  if (!std::holds_alternative<For>(nest)) return std::nullopt;
  const Block block{nest};
  std::optional<Kind> out;
  bool pure = true;
  for_each_statement(block, [&](const Statement& s) {
    if (auto* found = std::get_if<Kind>(&s))
      pure = pure && !out, out = *found;
    else if (!std::holds_alternative<Define>(s) && !inside(s))
      pure = false;
  });
  return pure ? out : std::nullopt;
}

// The registers that a nest defines, and the variables of its loops, in their order.
std::vector<Register> defined(const Block& block) {
  std::vector<Register> out;
  for_each_of<Define>(block, [&](const Define& d) { out.push_back(d.to); });
  return out;
}
std::vector<Variable> variables(const Block& block) {
  std::vector<Variable> out;
  for_each_of<For>(block, [&](const For& f) { out.push_back(f.variable); });
  return out;
}
template <class T>
std::map<T, T> pairs(const std::vector<T>& from, const std::vector<T>& to) {
  std::map<T, T> out;
  for (size_t k = 0; k < from.size(); ++k) out[from[k]] = to[k];
  return out;
}

// Does the nest of the max combine the values among which the other one searches, in the same order?
bool same_values(const Kernel& kernel, const Statement& max_nest, const Combine& max, const Statement& search_nest,
                 const CombineFirst& search) {
  Block a{max_nest};
  const Block b{search_nest};
  const std::vector<Register> from = defined(a), to = defined(b);
  const std::vector<Variable> outer = variables(a), inner = variables(b);
  if (from.size() != to.size() || outer.size() != inner.size()) return false;
  for (size_t k = 0; k < from.size(); ++k)
    if (kernel.registers[size_t(from[k])] != kernel.registers[size_t(to[k])]) return false;
  const std::map<Register, Register> registers = pairs(from, to);
  const std::map<Variable, Variable> loops = pairs(outer, inner);
  auto renamed = [](const auto& names, auto name) {
    const auto at = names.find(name);
    return at == names.end() ? name : at->second;
  };
  rename(a,
         {[&](Register r) { return renamed(registers, r); }, [&](Variable v) { return renamed(loops, v); }, nullptr});
  for_each_statement(a, [&](Statement& s) {
    if (!std::holds_alternative<Combine>(s)) return;
    CombineFirst first = search;
    first.value = renamed(registers, max.value);
    s = first;
  });
  return a == b;
}

class Keeper {
 public:
  explicit Keeper(Kernel& kernel) : kernel_(kernel) {}
  void run() { look(statements(kernel_)); }

 private:
  void look(Block& block) {
    for (Statement& s : block)
      if (Block* within = inside(s)) look(*within);
    for (size_t max = 0; max < block.size(); ++max)
      for (size_t search = 0; search < block.size(); ++search)
        if (max != search && join(block, max, search)) return look(block);
  }

  // Where the register is reset in the block; none if it is reset elsewhere, too, or in no way.
  std::optional<size_t> reset_of(const Block& block, Register r, size_t before) const {
    size_t resets = 0;
    for_each_of<Reset>(statements(kernel_), [&](const Reset& reset) { resets += reset.to == r ? 1 : 0; });
    for (size_t k = 0; k < before; ++k)
      if (auto* reset = std::get_if<Reset>(&block[k]); reset && reset->to == r && resets == 1) return k;
    return std::nullopt;
  }
  bool changed_once(Register r) const {
    size_t changes = 0;
    for_each_of<Combine>(statements(kernel_), [&](const Combine& c) { changes += c.to == r ? 1 : 0; });
    for_each_of<CombineFirst>(statements(kernel_), [&](const CombineFirst& c) { changes += c.best == r ? 1 : 0; });
    return changes == 1;
  }

  // Removes the max that is computed by one statement of the block if the other one searches for its position.
  bool join(Block& block, size_t max_at, size_t search_at) {
    const auto max = only_combination<Combine>(block[max_at]);
    const auto search = max ? only_combination<CombineFirst>(block[search_at]) : std::nullopt;
    if (!search || max->factor >= 0) return false;
    const bool highest = max->accumulator == Accumulator::max && search->accumulator == Accumulator::argmax;
    const bool lowest = max->accumulator == Accumulator::min && search->accumulator == Accumulator::argmin;
    const auto total = reset_of(block, max->to, max_at), best = reset_of(block, search->best, search_at),
               position = reset_of(block, search->position, search_at);
    if ((!highest && !lowest) || !total || !best || !position || !changed_once(max->to) ||
        !changed_once(search->best) || kernel_.registers[size_t(max->to)] != kernel_.registers[size_t(search->best)] ||
        !same_values(kernel_, block[max_at], *max, block[search_at], *search))
      return false;
    const size_t first = std::min(max_at, search_at), last = std::max(max_at, search_at);
    if (writes_what_is_read(block, first, last)) return false;

    const double start = std::get<Reset>(block[*total]).value;
    Block joined{Reset{search->best, start}, block[*position], block[search_at]}, out;
    for (size_t k = 0; k < block.size(); ++k) {
      if (k == first) append(out, joined);
      if (k != max_at && k != search_at && k != *total && k != *best && k != *position) out.push_back(block[k]);
    }
    rename(out, {[&](Register r) { return r == max->to ? search->best : r; }, nullptr, nullptr});
    block = std::move(out);
    return true;
  }

  // Do the statements between two nests write an element that the nests read?
  static bool writes_what_is_read(const Block& block, size_t first, size_t last) {
    std::set<ir::BufferId> read;
    for_each_access(block[first], [&](const loop::Access& a) { read.insert(a.buffer); });
    bool out = false;
    for (size_t k = first + 1; k < last; ++k)
      for_each_access(block[k], [&](const loop::Access& a) { out = out || (a.write && read.count(a.buffer)); });
    return out;
  }

  Kernel& kernel_;
};

}  // namespace

Module keep_best(const Module& module) {
  return with_changed_kernels(module, [](Kernel& kernel) {
    const bool searches = find_of<CombineFirst>(statements(kernel), [](const CombineFirst&) { return true; });
    if (searches) Keeper(kernel).run();
  });
}

}  // namespace caravan::schedule
