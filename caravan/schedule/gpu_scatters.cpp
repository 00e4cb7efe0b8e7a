#include "caravan/schedule/gpu_scatters.h"

#include <algorithm>
#include <optional>
#include <set>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/op.h"
#include "caravan/target/prelude_sizes.h"

namespace caravan::schedule {

using namespace loop;
using Part = Term::Part;

namespace {

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
        [](const OneOf<Reset, Combine, CombineFirst, Store, StoreFirst, Move, Barrier> auto&) { return false; });
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

// A sum into memory through an index tensor, in the form in which each element of the table is a sum.
struct Gather {
  int64_t rows;              // of the table
  std::vector<For> outer;    // over the table: first over the values of the index
  std::vector<For> inner{};  // over the terms
  Block point{};             // adds a term to `total`
  Register total;
  RegisterType type;
  StoreCombine store;  // of the nest that it was made from
  Term offset{};       // of the element
  int64_t work, terms = 1;
  std::vector<Statement> items{};  // definitions and guards around the sum

  // The nest; what follows the sum is the last statement.
  Block nest(Statement last) const {
    Block sum;
    sum.push_back(Reset{total, neutral(store.accumulator, type.dtype)});
    append(sum, wrapped(inner, point));
    sum.push_back(std::move(last));
    return wrapped(outer, std::move(sum));
  }
  Block added() const { return nest(StoreCombine{store.buffer, offset, store.accumulator, total}); }
};

// Adds registers and variables to the kernel.
std::optional<Gather> gather_of(const Block& block, Kernel& kernel, const Gpu& gpu) {
  Scatter nest;
  if (!take_nest(block, nest)) return std::nullopt;
  const auto index = index_of(nest.store.offset);
  if (!index || !row(nest.store.accumulator).op) return std::nullopt;
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
      return std::nullopt;
    if (guard->where.size() == before || asked) continue;
    guard->where.push_back(read - own), guard->where.push_back(own - read);
    asked = true;
  }
  if (!from_zero || !most || !asked) return std::nullopt;

  // Loops that are in the offset go outside; the others are the sum.
  const RegisterType type = kernel.registers[size_t(nest.store.value)].dtype;
  Gather out{.rows = *most + 1,
             .outer = {{value, *most + 1, LoopKind::serial, {}}},
             .total = add_register(kernel, type),
             .type = type,
             .store = nest.store,
             .work = *most + 1};
  const int64_t many = gpu.most_narrow;  // iterations, all of which are counted by indices of 32 bits
  for (const For& f : nest.loops) {
    const bool is_outer = coefficient(nest.store.offset, f.variable) != 0;
    out.work = out.work > many / std::max<int64_t>(f.extent, 1) ? many : out.work * f.extent;
    if (!is_outer) out.terms = std::min(many, out.terms * f.extent);
    (is_outer ? out.outer : out.inner).push_back(f);
  }
  if (out.inner.empty() || out.terms >= many) return std::nullopt;

  out.items = nest.items;
  out.point.push_back(Combine{out.total, nest.store.accumulator, nest.store.value, nest.store.factor});
  for (size_t k = nest.items.size(); k-- > 0;) {
    if (auto* guard = std::get_if<If>(&nest.items[k])) {
      if (guard->where.empty()) continue;
      guard->body = std::move(out.point);
      out.point = Block();
    }
    out.point.insert(out.point.begin(), std::move(nest.items[k]));
  }
  out.offset = Term::number(nest.store.offset.constant);
  for (const Part& part : nest.store.offset.parts) {
    const bool is_index = part.kind == Part::Kind::load;
    out.offset.add(is_index ? Part::Kind::iterator : part.kind, is_index ? value : part.which, part.coefficient);
  }
  return out;
}

// Does the loop store the same number, the neutral one of the accumulator, to every element of the buffer?
bool fills(const Statement& statement, const StoreCombine& store, int64_t elements, DType dtype) {
  auto* loop = std::get_if<For>(&statement);
  if (!loop || loop->extent != elements || loop->body.size() != 2) return false;
  auto* number = std::get_if<Define>(&loop->body[0]);
  auto* stored = std::get_if<Store>(&loop->body[1]);
  auto* constant = number ? std::get_if<Constant>(&number->value) : nullptr;
  return constant && stored && stored->buffer == store.buffer && stored->value == number->to &&
         stored->offset == Term::iterator(loop->variable) && constant->value == neutral(store.accumulator, dtype);
}

// Puts the loops into the order of the table in memory, and returns whether they store each of its elements once.
bool in_order(std::vector<For>& loops, const Term& offset, int64_t elements) {
  auto stride = [&](const For& f) { return coefficient(offset, f.variable); };
  std::stable_sort(loops.begin(), loops.end(), [&](const For& a, const For& b) { return stride(a) > stride(b); });
  int64_t inside = 1;
  for (size_t k = loops.size(); k-- > 0;) {
    if (stride(loops[k]) != inside) return false;
    inside *= loops[k].extent;
  }
  return inside == elements && offset.constant == 0 && offset.parts.size() == loops.size();
}

}  // namespace

Module gather_scatters(const Module& module, const Target& target) {
  Module out = module;
  for (Kernel& kernel : out.kernels) {
    if (!has_statements(kernel) || statements(kernel).size() != 2) continue;
    Kernel trial = kernel;
    std::optional<Gather> gather = gather_of({statements(kernel)[1]}, trial, target.gpu);
    if (!gather || gather->store.buffer.is_local() || gather->work > target.gpu.most_matched) continue;
    const ir::Buffer& table = module.buffers[size_t(gather->store.buffer)];
    if (!fills(statements(kernel)[0], gather->store, table.shape.elements(), table.dtype) ||
        gather->type.dtype != table.dtype || !in_order(gather->outer, gather->offset, table.shape.elements()))
      continue;
    trial.body = gather->nest(Store{gather->store.buffer, gather->offset, gather->total});
    kernel = std::move(trial);
  }
  return out;
}

bool gather_scatter(Kernel& kernel, const Target& target) {
  Kernel trial = kernel;
  std::optional<Gather> gather = gather_of(statements(kernel), trial, target.gpu);
  if (!gather) return false;
  const Gpu& gpu = target.gpu;
  if (gather->work <= gpu.most_matched) {
    trial.body = gather->added();
    kernel = std::move(trial);
    return false;
  }

  // A block of threads for some rows of the table.
  std::vector<For>& outer = gather->outer;
  if (guards_depend_on({outer.begin() + 1, outer.end()}, gather->items)) return false;
  if (!are_independent(gather->added(), outer.size())) return false;
  const int64_t most_blocks = gpu.table_blocks * gpu.multiprocessors,
                rows = std::clamp<int64_t>((gather->rows - 1 + most_blocks) / most_blocks, 1,
                                           prelude_sizes::kMostTableRows);
  for (For& f : outer) f.kind = LoopKind::columns;
  for (For& f : gather->inner) f.kind = LoopKind::terms;
  outer[0].kind = LoopKind::rows;
  Block all;
  all.push_back(For{add_variable(trial, "once"), 1, LoopKind::grid, gather->added(), (gather->rows - 1 + rows) / rows});
  trial.body = std::move(all);
  trial.grid = {int(gpu.most_threads), false, int(gpu.most_threads)};
  kernel = std::move(trial);
  return true;
}

}  // namespace caravan::schedule
