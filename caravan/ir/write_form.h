// Which elements an accumulation writes, and whether its points write different ones: what decides the shape of loops.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::ir {

// true iff points that differ in the iterators of the term give it different values. One iterator always does; two do
// in a*x + b*y iff x < |b|/g or y < |a|/g for their greatest common divisor g, because equal values are multiples of
// (b, -a)/g apart; of more than two, or an index tensor, nothing is known.
bool tells_apart(const Term& term, const std::vector<int64_t>& extents);

// How an accumulation writes, which decides the shape of its loops.
struct WriteForm {
  // true iff every iterator that the write map mentions has an axis that tells its values apart (with at most one other
  // iterator, constants and symbols), and no index tensor takes part: then points that differ in those iterators write
  // different elements. Only over such iterators may a loop be parallel, and only then can the total be kept in a
  // register.
  bool injective = false;
  // true iff injective and the box of the iterators reaches every element of the target. It may reach beyond: there
  // `where` keeps the write in range.
  bool covers = false;
  std::vector<bool> outer;  // by iterator: does it appear in the write map
};
WriteForm write_form(const Program& program, const Accumulation& accumulation);

// The iterators that are summed over, in the order of their loops, outermost first: as the accumulation lists them, but
// one that is summed in lanes is the innermost.
std::vector<size_t> reduced_iterators(const Accumulation& accumulation, const WriteForm& form);

}  // namespace caravan::ir
