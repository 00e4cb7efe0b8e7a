#include "caravan/schedule/tile_loops.h"

#include <algorithm>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

std::vector<Sections> cut(int64_t extent, int64_t size) {
  std::vector<Sections> out;
  if (extent >= size) out.push_back({0, extent / size, size});
  if (extent % size != 0) out.push_back({extent / size * size, 1, extent % size});
  return out;
}
int64_t count(const std::vector<Sections>& sections) {
  int64_t out = 0;
  for (const Sections& section : sections) out += section.count;
  return out;
}
Term start_of(const Sections& section, Variable number) {
  return Term::number(section.start) + (section.count > 1 ? Term::iterator(number, section.size) : Term{});
}

std::vector<ColumnSections> column_sections(int64_t columns, int64_t lanes, int64_t wide) {
  std::vector<ColumnSections> out;
  for (const Sections& vectors : cut((columns + lanes - 1) / lanes, wide)) {
    const int64_t start = vectors.start * lanes, size = vectors.size * lanes;
    const int64_t full = std::min(vectors.count, (columns - start) / size), from = start + full * size;
    if (full > 0) out.push_back({{start, full, size}, vectors.size, size});
    if (full < vectors.count) out.push_back({{from, 1, size}, vectors.size, columns - from});
  }
  return out;
}

Block block_with(Statement s) {
  Block out;
  out.push_back(std::move(s));
  return out;
}
For loop_over(Variable variable, int64_t extent, Block body) {
  return For{variable, extent, LoopKind::serial, std::move(body)};
}
For vector_loop(Variable variable, int64_t extent, Block body) {
  For out = loop_over(variable, extent, std::move(body));
  if (extent > 1 && side_by_side(out)) out.kind = LoopKind::vector;
  return out;
}
Block nested(const std::vector<ContractionNest::Loop>& loops, Block body) {
  for (size_t k = loops.size(); k-- > 0;)
    body = block_with(loop_over(loops[k].variable, loops[k].extent, std::move(body)));
  return body;
}
Term position(const std::vector<ContractionNest::Loop>& loops) {
  Term out;
  int64_t stride = 1;
  for (size_t k = loops.size(); k-- > 0; stride *= loops[k].extent)
    if (loops[k].extent > 1) out = out + Term::iterator(loops[k].variable, stride);
  return out;
}

Term TermLoops::at(Term term) const {
  for (const auto& [variable, value] : values) {
    const int64_t times = coefficient(term, variable);
    term = term - Term::iterator(variable, times) + value * times;
  }
  return term;
}

TermLoops joined(Kernel& kernel, const TermLoops& terms, const Load* from) {
  if (!from || terms.loops.size() < 2) return terms;
  int64_t stride = 1;
  for (size_t k = terms.loops.size(); k-- > 0; stride *= terms.loops[k].extent) {
    // The loop that is cut into blocks has a value of its own.
    const Variable variable = k == 0 && !terms.values.empty() ? terms.values[0].first : terms.loops[k].variable;
    if (terms.loops[k].extent > 1 && coefficient(from->offset, variable) != stride) return terms;
  }
  const Variable all = add_variable(kernel, kernel.variables[size_t(terms.loops.back().variable)] + "_all");
  TermLoops out{{{all, stride}}, {}, terms.before};
  for (const ContractionNest::Loop& loop : terms.loops) out.values.push_back({loop.variable, Term{}});
  out.values.back().second = Term::iterator(all);
  if (!terms.values.empty()) {
    // The first loop is inside of a block, whose start stays.
    Term start = terms.values[0].second;
    std::erase_if(start.parts, [&](const Term::Part& part) {
      return part.kind == Term::Part::Kind::iterator && part.which == terms.loops[0].variable;
    });
    out.values[0] = {terms.values[0].first, start};
    out.values.insert(out.values.end(), terms.values.begin() + 1, terms.values.end());
  }
  return out;
}

Block over_terms(const ContractionNest& nest, const TermLoops& terms, Block body) {
  std::vector<std::vector<Term>> inside(terms.loops.size() + 1);  // guards by the number of loops around them
  for (Term guard : nest.guards) {
    guard = terms.at(std::move(guard));
    size_t depth = terms.loops.size();
    while (depth > 0 && coefficient(guard, terms.loops[depth - 1].variable) == 0) --depth;
    inside[depth].push_back(std::move(guard));
  }
  for (size_t k = terms.loops.size() + 1; k-- > 0;) {
    if (!inside[k].empty()) body = block_with(If{std::move(inside[k]), std::move(body)});
    if (k > 0) body = block_with(loop_over(terms.loops[k - 1].variable, terms.loops[k - 1].extent, std::move(body)));
  }
  return body;
}

Block at_point(Kernel& kernel, const ContractionNest& nest, const Block& block, const Term& row, const Term& column,
               const TermLoops& terms) {
  Block out = copied(kernel, block);
  rename(out, {nullptr, nullptr, nullptr, [&](const Term::Part& part) {
                 if (part.kind == Term::Part::Kind::iterator) {
                   if (part.which == nest.row.variable) return row * part.coefficient;
                   if (part.which == nest.column.variable) return column * part.coefficient;
                   for (const auto& [variable, value] : terms.values)
                     if (part.which == variable) return value * part.coefficient;
                 }
                 return Term{0, {part}};
               }});
  return out;
}

}  // namespace caravan::schedule
