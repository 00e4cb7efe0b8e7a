#include "caravan/schedule/gpu_scatters.h"

#include <algorithm>
#include <optional>
#include <set>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/op.h"

namespace caravan::schedule {

using namespace loop;
using Part = Term::Part;

namespace {

constexpr int64_t kMany = int64_t(1) << 30;  // iterations; loops of a GPU that have more need other indices
// Of a table whose rows are divided among blocks of threads: blocks for each multiprocessor, and most rows of a block
// (prelude/scatter.cuh).
constexpr int64_t kBlocks = 4, kMostRows = 128;

// A nest of loops around one addition into memory.
struct Scatter {
  std::vector<For> loops;        // without bodies
  std::vector<Statement> items;  // the definitions and guards before the addition, guards without bodies
  StoreCombine store;
};

bool take_nest(const Block& block, Scatter& out) {
  for (size_t k = 0; k < block.size(); ++k) {
    const bool last = k + 1 == block.size();
    const bool taken = match(
        block[k],
        [&](const Define& d) {
          out.items.push_back(d);
          return !last;
        },
        [&](const For& f) {
          out.loops.push_back({f.variable, f.extent, f.kind, {}});
          return last && f.kind == LoopKind::serial && take_nest(f.body, out);
        },
        [&](const If& guard) {
          out.items.push_back(If{guard.where, {}});
          return last && take_nest(guard.body, out);
        },
        [&](const StoreCombine& s) {
          out.store = s;
          return last;
        },
        [](const OneOf<Reset, Combine, CombineFirst, Store, StoreFirst, Barrier> auto&) { return false; });
    if (!taken) return false;
  }
  return !block.empty();
}

// The only register in the offset, if there is one.
std::optional<Part> index_of(const Term& offset) {
  std::optional<Part> out;
  for (const Part& part : offset.parts) {
    if (part.kind != Part::Kind::load) continue;
    if (out) return std::nullopt;
    out = part;
  }
  return out;
}

bool mentions(const Term& term, Register r) {
  return std::any_of(term.parts.begin(), term.parts.end(),
                     [&](const Part& part) { return part.kind == Part::Kind::load && part.which == r; });
}
// A guard r >= 0, or n - r >= 0, which gives n.
bool is_lower(const Term& term, Register r) {
  return term.constant == 0 && term.parts.size() == 1 && mentions(term, r) && term.parts[0].coefficient == 1;
}
std::optional<int64_t> upper(const Term& term, Register r) {
  if (term.parts.size() != 1 || !mentions(term, r) || term.parts[0].coefficient != -1) return std::nullopt;
  return term.constant;
}

Block wrapped(const std::vector<For>& loops, Block block) {
  int64_t chunk = 1;
  for (size_t k = loops.size(); k-- > 0;) {
    For loop = loops[k];
    if (k + 1 < loops.size() && loops[k + 1].kind != loop.kind) chunk = 1;
    loop.chunk = loop.kind == LoopKind::serial ? 0 : chunk;
    chunk *= loop.extent;
    loop.body = std::move(block);
    block = Block();
    block.push_back(std::move(loop));
  }
  return block;
}

// The loops of the table: do iterations of each of them write different elements?
bool are_independent(const Block& nest, size_t loops) {
  const Block* block = &nest;
  for (size_t k = 0; k < loops; ++k) {
    const For& loop = std::get<For>(block->back());
    if (!independent(loop.variable, loop.extent, loop.body)) return false;
    block = &loop.body;
  }
  return true;
}

// Does a definition that the guards need depend on one of these loops?
bool guards_depend_on(const std::vector<For>& loops, const std::vector<Statement>& items) {
  std::set<Register> needed;
  auto of_loops = [&](const Term& term) {
    return std::any_of(loops.begin(), loops.end(), [&](const For& f) { return coefficient(term, f.variable) != 0; });
  };
  bool out = false;
  for (const Statement& item : items)
    if (auto* guard = std::get_if<If>(&item)) {
      for_each_use(*guard, [&](Register r) { needed.insert(r); });
      out = out || std::any_of(guard->where.begin(), guard->where.end(), of_loops);
    }
  for (size_t k = items.size(); k-- > 0;) {
    auto* define = std::get_if<Define>(&items[k]);
    if (!define || !needed.count(define->to)) continue;
    for_each_use(*define, [&](Register r) { needed.insert(r); });
    if (auto* load = std::get_if<Load>(&define->value)) out = out || of_loops(load->offset);
    if (auto* index = std::get_if<IndexValue>(&define->value)) out = out || of_loops(index->term);
    if (std::holds_alternative<RandomValue>(define->value)) return true;
  }
  return out;
}

}  // namespace

bool gather_scatter(Kernel& kernel, const Target& target) {
  Scatter nest;
  if (!take_nest(statements(kernel), nest)) return false;
  const auto index = index_of(nest.store.offset);
  const auto op = row(nest.store.accumulator).op;
  if (!index || !op) return false;
  const Register id = index->which;

  // The range of the index, from the guards, which become the question whether it is that of the element.
  const Variable value = add_variable(kernel, "v");
  const Term own = Term::iterator(value);
  Term read;
  read.add(Part::Kind::load, id, 1);
  bool from_zero = false, asked = false;
  std::optional<int64_t> most;
  for (Statement& item : nest.items) {
    auto* guard = std::get_if<If>(&item);
    if (!guard) continue;
    const size_t before = guard->where.size();
    std::erase_if(guard->where, [&](const Term& term) {
      from_zero = from_zero || is_lower(term, id);
      if (const auto found = upper(term, id)) most = most ? std::min(*most, *found) : *found;
      return is_lower(term, id) || upper(term, id).has_value();
    });
    if (std::any_of(guard->where.begin(), guard->where.end(), [&](const Term& t) { return mentions(t, id); }))
      return false;
    if (guard->where.size() == before || asked) continue;
    guard->where.push_back(read - own), guard->where.push_back(own - read);
    asked = true;
  }
  if (!from_zero || !most || !asked) return false;

  // Loops that are in the offset go outside; the others are the sum.
  const Gpu& gpu = target.gpu;
  std::vector<For> outer = {{value, *most + 1, LoopKind::serial, {}}}, inner;
  int64_t work = *most + 1, terms = 1;
  for (For& f : nest.loops) {
    const bool is_outer = coefficient(nest.store.offset, f.variable) != 0;
    work = work > kMany / std::max<int64_t>(f.extent, 1) ? kMany : work * f.extent;
    if (!is_outer) terms = std::min(kMany, terms * f.extent);
    (is_outer ? outer : inner).push_back(f);
  }
  const bool sorted = work > gpu.most_matched;
  if (inner.empty() || terms >= kMany) return false;
  if (sorted && guards_depend_on({outer.begin() + 1, outer.end()}, nest.items)) return false;

  const RegisterType type = kernel.registers[size_t(nest.store.value)].dtype;
  const Register total = add_register(kernel, type);
  Block point;
  point.push_back(Combine{total, nest.store.accumulator, nest.store.value, nest.store.factor});
  for (size_t k = nest.items.size(); k-- > 0;) {
    if (auto* guard = std::get_if<If>(&nest.items[k])) {
      if (guard->where.empty()) continue;
      guard->body = std::move(point);
      point = Block();
    }
    point.insert(point.begin(), std::move(nest.items[k]));
  }
  Term offset = Term::number(nest.store.offset.constant);
  for (const Part& part : nest.store.offset.parts) {
    const bool is_index = part.kind == Part::Kind::load;
    offset.add(is_index ? Part::Kind::iterator : part.kind, is_index ? value : part.which, part.coefficient);
  }
  auto made = [&] {
    Block sum;
    sum.push_back(Reset{total, neutral(nest.store.accumulator, type.dtype)});
    append(sum, wrapped(inner, point));
    sum.push_back(StoreCombine{nest.store.buffer, offset, nest.store.accumulator, total});
    return wrapped(outer, std::move(sum));
  };
  if (!sorted) {
    kernel.body = made();
    return false;
  }

  // A block of threads for some rows of the table.
  if (!are_independent(made(), outer.size())) return false;
  const int64_t most_blocks = kBlocks * gpu.multiprocessors,
                rows = std::clamp<int64_t>((*most + most_blocks) / most_blocks, 1, kMostRows);
  for (For& f : outer) f.kind = LoopKind::columns;
  for (For& f : inner) f.kind = LoopKind::terms;
  outer[0].kind = LoopKind::rows;
  Block all;
  all.push_back(For{add_variable(kernel, "once"), 1, LoopKind::grid, made(), (*most + rows) / rows});
  kernel.body = std::move(all);
  kernel.grid = {int(gpu.most_threads), false, int(gpu.most_threads)};
  return true;
}

}  // namespace caravan::schedule
