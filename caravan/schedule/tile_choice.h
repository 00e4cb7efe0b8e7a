// How a contraction is cut into blocks and tiles (tile_contractions.h): a function of its sizes, of how its operands
// lie in memory, and of the target.
#pragma once

#include "caravan/schedule/contraction_nest.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

struct Tiles {
  std::vector<ContractionNest::Loop> outer;       // loops around a block of rows
  std::vector<ContractionNest::Loop> inner_rows;  // loops over rows inside of a block, around `row`
  int lanes = 1;                                  // of a vector
  int64_t wide = 1;                               // vectors in a row of a tile
  int64_t rows = 1;                               // of a tile
  int64_t block_rows = 1;                         // of a block, without `inner_rows`
  int64_t block_columns = 1;
  bool parts_first = false;  // the loop over blocks of columns is the outermost
  bool pack_rows = false, pack_columns = false;
  // A packed element of a row fills a vector. Then rows take much memory: those of one tile are packed at a time, and
  // all columns of the block are multiplied by them while they are in the nearest cache.
  bool spread_rows = false;
  bool share_columns = false;  // columns are packed by a kernel of their own, once for all blocks of rows

  // Columns that are read in place are not followed by zeros: the last vector begins so early that it ends with them,
  // and computes some sums a second time.
  bool overlap() const { return !pack_columns; }
};

// Nothing if the contraction is too small, or if its blocks do not fit into the memory of a thread. One of few rows, or
// of a single one, must have columns that tiles can read in place: copying them would cost as much as the product. Its
// tiles are so wide that memory is read in long pieces. A contraction in a group is computed by one thread, which packs
// columns only for itself.
std::optional<Tiles> choose_tiles(const loop::Module& module, const ContractionNest& nest, const Target& target,
                                  bool in_group = false);

}  // namespace caravan::schedule
