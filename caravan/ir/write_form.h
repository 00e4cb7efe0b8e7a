// Which elements an accumulation writes, and whether different points write different elements. This decides the form
// of its loops.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::ir {

// Do points that differ in the iterators of the term give it different values? With one iterator they always do. With
// two, in a*x + b*y, they do iff x has at most |b|/g values or y at most |a|/g, where g = gcd(a, b): points of equal
// value differ by a multiple of (b, -a)/g. With more than two iterators, or an index tensor, the answer is false,
// because nothing is known.
bool tells_apart(const Term& term, const std::vector<int64_t>& extents);

// How an accumulation writes.
struct WriteForm {
  // true iff the write map has no index tensor, and every iterator in it occurs in an axis for which tells_apart()
  // holds. Then points that differ in those iterators write different elements. Only then can a total be kept in a
  // register, and only loops over those iterators can be parallel.
  bool injective = false;
  // true iff injective and the box of the iterators reaches every element of the target. It may reach beyond the
  // target, where `where` excludes the point.
  bool covers = false;
  std::vector<bool> outer;  // by iterator: does it occur in the write map
};
WriteForm write_form(const Program& program, const Accumulation& accumulation);

// The reduced iterators in the order of their loops, outermost first: as the accumulation lists them, but the one with
// lanes is innermost.
std::vector<size_t> reduced_iterators(const Accumulation& accumulation, const WriteForm& form);

}  // namespace caravan::ir
