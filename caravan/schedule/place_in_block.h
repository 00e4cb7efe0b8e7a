// Decides whether a program is so small that one block of threads runs all its kernels, many steps a launch: its
// operations are at most Gpu::one_block_work, and it calls no library but to copy. Also decides how many threads the
// block has, and which of them run each kernel. Kernels of one stage run side by side if none of their threads waits
// for those of another warp. The block waits before each stage, and around kernels whose threads wait for each other:
// they may use the same barriers and the same shared memory. For example, in a block of 128 threads
//
//     stage 0   p, on 64 threads         threads 0 to 63
//     stage 0   q, on 64 threads         threads 64 to 127
//     stage 1   r, in groups of 128      all wait, then threads 0 to 127
//
// May run after order_stages. Changes no loop, and so no bit.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module place_in_block(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
