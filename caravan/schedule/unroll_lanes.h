// For a GPU: unrolls the loops that the lanes of a group share, so that several elements of a lane are on their way
// from memory at the same time (Gpu::lane_loads):
//
//     for j < 512 lanes:             for j < 512 lanes 4 at once:
//       r0:f32 = x[512*i + j]   ->     r0:f32 = x[512*i + j]
//       r1 += r0                       r1 += r0
//
// Runs when these loops have their final sizes, after gpu_neighbours. Leaves alone a loop in which a lane has one
// iteration at most. Changes no bit.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module unroll_lanes(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
