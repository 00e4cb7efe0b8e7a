#include "caravan/schedule/scatter_nest.h"

#include <algorithm>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/op.h"

namespace caravan::schedule {

using namespace loop;
using Part = Term::Part;

namespace {

// A nest of loops around one addition into memory.
struct LoopsOfAddition {
  std::vector<For> loops;        // without bodies
  std::vector<Statement> items;  // the definitions and guards before the addition, guards without bodies
  StoreCombine store;
};

bool take_nest(const Block& block, LoopsOfAddition& out) {
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
        [](const OneOf<Reset, Combine, CombineFirst, Store, StoreFirst, Move, Barrier, Prefetch> auto&) {
          return false;
        });
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

}  // namespace

Block TableSum::nest(Statement last) const {
  Block sum;
  sum.push_back(Reset{total, neutral(store.accumulator, type.dtype)});
  append(sum, wrapped(inner, point));
  sum.push_back(std::move(last));
  return wrapped(outer, std::move(sum));
}
Block TableSum::added() const { return nest(StoreCombine{store.buffer, offset, store.accumulator, total}); }

std::optional<TableSum> table_sum(const Block& block, Kernel& kernel, const Gpu& gpu) {
  LoopsOfAddition nest;
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
  TableSum out{.rows = *most + 1,
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

}  // namespace caravan::schedule
