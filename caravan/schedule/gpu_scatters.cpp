#include "caravan/schedule/gpu_scatters.h"

#include <algorithm>
#include <optional>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/op.h"

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

}  // namespace

void gather_scatter(Kernel& kernel, const Target& target) {
  Scatter nest;
  if (!take_nest(statements(kernel), nest)) return;
  const auto index = index_of(nest.store.offset);
  const auto op = row(nest.store.accumulator).op;
  if (!index || !op) return;
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
    if (std::any_of(guard->where.begin(), guard->where.end(), [&](const Term& t) { return mentions(t, id); })) return;
    if (guard->where.size() == before || asked) continue;
    guard->where.push_back(read - own), guard->where.push_back(own - read);
    asked = true;
  }
  if (!from_zero || !most || !asked) return;

  // Loops that are in the offset go outside; the others are the sum.
  std::vector<For> outer = {{value, *most + 1, LoopKind::serial, {}}}, inner;
  int64_t work = *most + 1;
  for (For& f : nest.loops) {
    work =
        work > target.gpu.most_matched / std::max<int64_t>(f.extent, 1) ? target.gpu.most_matched + 1 : work * f.extent;
    (coefficient(nest.store.offset, f.variable) != 0 ? outer : inner).push_back(f);
  }
  if (work > target.gpu.most_matched || inner.empty()) return;

  auto wrapped = [](std::vector<For>& loops, Block block) {
    for (size_t k = loops.size(); k-- > 0;) {
      loops[k].body = std::move(block);
      block = Block();
      block.push_back(std::move(loops[k]));
    }
    return block;
  };
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
  Block sum;
  sum.push_back(Reset{total, neutral(nest.store.accumulator, type.dtype)});
  append(sum, wrapped(inner, std::move(point)));
  Term offset = Term::number(nest.store.offset.constant);
  for (const Part& part : nest.store.offset.parts) {
    const bool is_index = part.kind == Part::Kind::load;
    offset.add(is_index ? Part::Kind::iterator : part.kind, is_index ? value : part.which, part.coefficient);
  }
  sum.push_back(StoreCombine{nest.store.buffer, offset, nest.store.accumulator, total});
  kernel.body = wrapped(outer, std::move(sum));
}

}  // namespace caravan::schedule
