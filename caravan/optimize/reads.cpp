#include "caravan/optimize/reads.h"

#include <algorithm>

#include "caravan/ir/write_form.h"

namespace caravan::optimize {

using ir::Term;
using Part = Term::Part;

int64_t stride(const ir::Program& program, ir::BufferId buffer, const std::vector<ir::Term>& map, int iterator) {
  const std::vector<int64_t> sizes = program.buffers[size_t(buffer)].shape.sizes();
  int64_t out = 0, step = 1;
  for (size_t axis = map.size(); axis-- > 0; step *= sizes[axis])
    for (const ir::Term::Part& part : map[axis].parts)
      if (part.kind == ir::Term::Part::Kind::iterator && part.which == iterator) out += part.coefficient * step;
  return out;
}

void drop_unread(ir::Accumulation& a) {
  std::vector<bool> used(a.operands.size(), false);
  std::vector<size_t> open;
  auto use = [&](size_t k) {
    if (!used[k]) used[k] = true, open.push_back(k);
  };
  auto use_loads = [&](const Term& t) {
    for (const Part& part : t.parts)
      if (part.kind == Part::Kind::load) use(size_t(part.which));
  };
  for (const ir::Scalar& s : a.body.entries())
    if (s.kind == ir::Scalar::Kind::load) use(size_t(s.operand));
  for (const Term& t : a.where) use_loads(t);
  for (const Term& t : a.write) use_loads(t);
  while (!open.empty()) {
    const size_t k = open.back();
    open.pop_back();
    for (const Term& t : a.operands[k].map) use_loads(t);
  }
  std::vector<int> renamed(used.size(), -1);
  std::vector<ir::Operand> kept;
  for (size_t k = 0; k < used.size(); ++k)
    if (used[k]) renamed[k] = int(kept.size()), kept.push_back(a.operands[k]);
  if (kept.size() == used.size()) return;
  auto rename = [&](Term& t) {
    if (!t.has_load()) return;
    Term out = Term::number(t.constant);
    for (const Part& part : t.parts)
      out.add(part.kind, part.kind == Part::Kind::load ? renamed[size_t(part.which)] : part.which, part.coefficient);
    t = std::move(out);
  };
  a.operands = std::move(kept);
  for (ir::Operand& o : a.operands)
    for (Term& t : o.map) rename(t);
  for (Term& t : a.write) rename(t);
  for (Term& t : a.where) rename(t);
  a.body = a.body.with_operands(renamed);
}

bool has_loads(const ir::Accumulation& a) {
  auto any = [](const std::vector<ir::Term>& terms) {
    return std::any_of(terms.begin(), terms.end(), [](const ir::Term& t) { return t.has_load(); });
  };
  return any(a.where) || any(a.write) ||
         std::any_of(a.operands.begin(), a.operands.end(), [&](const ir::Operand& o) { return any(o.map); });
}

bool is_iterator_or_number(const ir::Term& index) {
  return index.is_constant() || (index.parts.size() == 1 && index == Term::iterator(index.parts[0].which));
}

bool is_elementwise(const ir::Program& program, const ir::Accumulation& a) {
  if (keeps_position(a.accumulator) || !a.where.empty() || a.part || a.collective || a.body.uses_position() ||
      has_loads(a))
    return false;
  const ir::WriteForm form = ir::write_form(program, a);
  return form.covers && std::all_of(a.write.begin(), a.write.end(), is_iterator_or_number) &&
         std::all_of(form.outer.begin(), form.outer.end(), [](bool written) { return written; });
}

}  // namespace caravan::optimize
