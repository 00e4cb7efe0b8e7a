// The loops of which the tiles of a contraction (tile_contractions.h) are made: loops that are cut into sections,
// nests, and loops over the terms of a sum.
#pragma once

#include <utility>

#include "caravan/schedule/contraction_nest.h"

namespace caravan::schedule {

// A loop cut into sections: `count` of `size`, from `start` on. A loop has at most two: the whole ones and a remainder.
struct Sections {
  int64_t start, count, size;
};
std::vector<Sections> cut(int64_t extent, int64_t size);
int64_t count(const std::vector<Sections>& sections);
loop::Term start_of(const Sections& section, loop::Variable number);  // of the section with this number

// Columns cut into tiles of so many vectors. The last tile may have fewer columns than its vectors hold. Then it is a
// section of its own.
struct ColumnSections : Sections {
  int64_t wide;   // vectors of a tile
  int64_t valid;  // columns of a tile
};
std::vector<ColumnSections> column_sections(int64_t columns, int64_t lanes, int64_t wide);

loop::Block block_with(loop::Statement s);
loop::For loop_over(loop::Variable variable, int64_t extent, loop::Block body);
loop::For vector_loop(loop::Variable variable, int64_t extent, loop::Block body);  // serial if it cannot be vectors
loop::Block nested(const std::vector<ContractionNest::Loop>& loops, loop::Block body);
// The position of the current iteration among all iterations of the nest.
loop::Term position(const std::vector<ContractionNest::Loop>& loops);

// The loops over terms within a block, and what the variables of the nest's own loops are in them.
struct TermLoops {
  std::vector<ContractionNest::Loop> loops;
  std::vector<std::pair<loop::Variable, loop::Term>> values;
  loop::Term before;   // the number of terms in earlier blocks
  loop::Term later{};  // 0 in the last block of all or of a slice, greater than 0 in others

  loop::Term at(loop::Term term) const;  // with these values in the place of the variables
};
// If the terms of the load are neighbours in memory, one loop instead of several: a pass over them is then a plain
// copy.
TermLoops joined(loop::Kernel& kernel, const TermLoops& terms, const loop::Load* from);

// The loops over terms, with the guards of the nest, each as far out as it can be.
loop::Block over_terms(const ContractionNest& nest, const TermLoops& terms, loop::Block body);

// Statements of the nest for other values of its loop variables, with registers of their own.
loop::Block at_point(loop::Kernel& kernel, const ContractionNest& nest, const loop::Block& block, const loop::Term& row,
                     const loop::Term& column, const TermLoops& terms);

}  // namespace caravan::schedule
