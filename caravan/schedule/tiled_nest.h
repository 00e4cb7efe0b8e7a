// The loops of a contraction that is computed in tiles (tile_contractions.h): around them the loops over blocks, inside
// of them the packing of operands and the tile of sums in registers.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/schedule/contraction_nest.h"
#include "caravan/schedule/row_update.h"
#include "caravan/schedule/tile_choice.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

// Returns the loops that take the place of the nest in the kernel. Adds a kernel to the module that packs the columns,
// if several blocks of rows need them. With `update`, the tiles also change the columns that they have read.
loop::Block tiled_nest(loop::Module& module, loop::Kernel& kernel, const ContractionNest& nest, const Tiles& tiles,
                       const Target& target, const RowUpdate* update);

}  // namespace caravan::schedule
