// A sum that is added into memory through an index tensor, such as the gradient of an embedding table, as sums that
// threads can share:
//
//     for b < 1024:                                       for v < 28:
//       r0 = ids[b]                                         for d < 64:
//       if r0 >= 0 and 27 - r0 >= 0:                          r1 := 0
//         for d < 64:                         becomes         for b < 1024:
//           y[64*r0 + d] += g[64*b + d]                         r0 = ids[b]
//                                                               if r0 - v >= 0 and v - r0 >= 0:
//                                                                 r1 += g[64*b + d]
//                                                             y[64*v + d] += r1
//
// No two threads add to one element: every element of the table looks at all indices.
#pragma once

#include <optional>
#include <vector>

#include "caravan/loop/loop.h"
#include "caravan/target/gpu.h"

namespace caravan::schedule {

// Such a sum, in the form on the right.
struct TableSum {
  int64_t rows;                    // of the table
  std::vector<loop::For> outer;    // over the table, without bodies: first over the values of the index
  std::vector<loop::For> inner{};  // over the terms
  loop::Block point{};             // adds a term to `total`
  loop::Register total;
  loop::RegisterType type;
  loop::StoreCombine store;              // of the nest that it was made from
  loop::Term offset{};                   // of the element
  int64_t work, terms = 1;               // comparisons in all, and for an element
  std::vector<loop::Statement> items{};  // definitions and guards around the sum

  loop::Block nest(loop::Statement last) const;  // `last` is what follows the sum
  loop::Block added() const;                     // the sum is added to the element
};
// Nothing if the block is no such nest: it has other statements, the index has no known range, or there are too many
// terms for indices of 32 bits. Adds registers and variables to the kernel.
std::optional<TableSum> table_sum(const loop::Block& block, loop::Kernel& kernel, const Gpu& gpu);

}  // namespace caravan::schedule
