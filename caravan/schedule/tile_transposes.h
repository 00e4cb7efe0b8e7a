// Cuts loops that copy a tensor into another order of axes into square blocks:
//
//     for i < 512:                                for i_block < 32:
//       for j < 784:                                for j_block < 49:
//         y[784*i + j] = x[512*j + i]   becomes       for i < 16:
//                                                       for j < 16:
//                                                         y[..] = x[..]
//
// The inner loop reads another cache line in every iteration. In a block, each of its lines is read for 16 values of i
// before it leaves the cache. Only innermost pairs of loops whose extents the block divides are cut.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module tile_transposes(const loop::Module& module);

}  // namespace caravan::schedule
