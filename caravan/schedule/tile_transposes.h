// Copies a tensor into another order of axes in square blocks of vectors:
//
//     for i < 512:                                for i_block < 32:
//       for j < 784:                                for j_block < 49:
//         y[784*i + j] = x[512*j + i]   becomes       16 vectors of x, each along i
//                                                     transposed in registers
//                                                     16 vectors of y, each along j
//
// One by one, the elements would be gathered from as many cache lines. If the size of a block does not divide a loop,
// the last block begins earlier and copies some elements a second time.
//
// Runs after tile_contractions, whose packed operands are such copies too. Promises the same values in the same places.
// Leaves alone loops that compute something, other precisions than f32 and f64, and loops of fewer than four
// iterations.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module tile_transposes(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
