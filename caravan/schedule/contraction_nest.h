// The loops of a contraction, taken apart: which loops are rows, columns and terms, what is computed from each operand
// before the multiplication, and what is done with the sum.
#pragma once

#include <optional>
#include <set>

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

struct ContractionNest {
  struct Loop {
    loop::Variable variable;
    int64_t extent;
    bool is_row = false;     // only the row factor depends on it
    bool is_column = false;  // only the column factor depends on it
  };
  std::vector<Loop> outer;           // all loops around the sum but `row` and `column`, outermost first
  Loop row{}, column{};              // the loops that are cut into tiles
  std::vector<Loop> terms;           // loops of the sum, outermost first
  std::vector<int64_t> term_blocks;  // by loop of `terms`: the size of its blocks, 0 if it is not cut
  // Iterations of the first loop of `terms` whose sums are added up by themselves, and can be computed by a thread of
  // their own; 0 if it is not cut. Such slices consist of the blocks above.
  int64_t slice = 0;
  // A term counts only where all of these are >= 0, such as at the border of a padded convolution. None depends on
  // `row` or `column`, so a term counts for all sums of a tile or for none.
  std::vector<loop::Term> guards;
  loop::Block definitions;  // all definitions before the multiplication, in order
  loop::Register row_factor = -1, column_factor = -1;
  bool fused = false;
  DType dtype{};            // of the sum
  loop::Register sum = -1;  // in `epilogue`
  loop::Block epilogue;     // what follows the sum, with the definitions that it uses

  int64_t terms_in_block() const;
  bool is_blocked() const;
  int64_t slices() const { return slice > 0 ? terms[0].extent / slice : 1; }
};

// A perfect nest of loops, with definitions between them, around one sum of products, and guards inside of the sum. If
// there are guards, what the column factor is computed from must be in range without them too. Loops of the same kind
// that walk through memory one after the other, such as the two of `for b: for t: .. x[256*b + t]`, have become one
// loop.
std::optional<ContractionNest> contraction_nest(const loop::Module& module, const loop::Kernel& kernel,
                                                const loop::For& outermost, const Tuning& tuning);
// The same for the product of a single row, such as that of a vector and a matrix: no loop is over rows. Adds a
// variable to the kernel, for a loop over that row.
std::optional<ContractionNest> one_row_nest(const loop::Module& module, loop::Kernel& kernel,
                                            const loop::For& outermost, const Tuning& tuning);

int64_t points(const std::vector<ContractionNest::Loop>& loops);  // the number of iterations of all of them

// The load that the factor is, if nothing is computed from it before the multiplication; else null. It may convert an
// element of a narrow float (f16, bf16) to f32.
const loop::Load* load_of(const ContractionNest& nest, loop::Register factor);
// The same, if tiles can read the elements in place: they have the precision of the sum.
const loop::Load* plain_load(const loop::Module& module, const ContractionNest& nest, loop::Register factor);

// The definitions that are needed to compute the register, in order.
loop::Block needed_for(const loop::Block& definitions, loop::Register result);

}  // namespace caravan::schedule
