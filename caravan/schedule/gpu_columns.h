// Lets a thread of a GPU add up several neighbouring columns, whose elements it loads together. map_to_grid asks for it
// where many columns of many rows are added up, such as the gradient of a bias:
//
//     for j < 768 grid:                                  for j < 96 grid:
//       r0 := 0                                            for n < 8: sum[n] = 0
//       for i < 1024 lanes:                 becomes        for i < 1024 lanes:
//         r0 += x[768*i + j]                                 for n < 8: sum[n] += x[768*i + 8*j + n]
//       r1 = sum across lanes of r0                        for n < 8: total[n] = sum across lanes of sum[n]
//       for lane < 1 lanes:                                for lane < 1 lanes:
//         y[j] = r1                                          for n < 8: y[8*j + n] = total[n]
//
// The loops over n are unrolled, so that both arrays are in registers, and elements of 16 bytes in all are one access
// (gpu_pieces.h). With one element each, threads would not have enough bytes on their way from memory.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

// How many columns a thread can take, if the innermost grid loop runs over columns: 1 if no more than one. Its body
// must consist of definitions, sums over loops without guards, and stores. All that is loaded or stored must be the
// same for all columns, or begin at a multiple of the size of what a thread takes.
int64_t most_columns(const loop::Module& module, const loop::For& columns, const Gpu& gpu);

// Changes the body of the innermost of these grid loops, when lanes share the loops inside of it, so that it takes
// `count` columns at a time.
void take_columns(loop::Kernel& kernel, const std::vector<loop::For*>& grid, int64_t count);

}  // namespace caravan::schedule
