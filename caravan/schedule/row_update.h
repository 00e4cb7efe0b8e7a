// The update of a matrix that a product has just read: with a batch of one, the gradient of a layer's input reads the
// weights, and the next kernel changes them.
//
//     for k < 100:                                          for k in a tile:
//       r := 0                                                for o < 100:
//       for o < 100:                                            w = weight[100*o + k]
//         r += weight[100*o + k] * d[o]         becomes         r += w * d[o]
//       dx[k] = r                                               weight[100*o + k] = w - lr * (d[o] * x[k])
//     for o < 100: for k < 100:                               dx[k] = r
//       weight[100*o + k] -= lr * (d[o] * x[k])
//
// The weights come from the second-level cache once then, not twice.
#pragma once

#include <optional>

#include "caravan/schedule/contraction_nest.h"

namespace caravan::schedule {

struct RowUpdate {
  loop::Block body;         // for one term and one column, with the registers and variables of the product's kernel
  loop::Register old = -1;  // the element that is updated: the product's column factor
};

// Is the kernel `next` the update of what the columns of a one-row product are read from? Each term and column must
// have one statement that stores the element, all computed by additions, subtractions and multiplications from elements
// that the product does not store. Adds registers to the kernel of the product.
std::optional<RowUpdate> row_update(const loop::Module& module, loop::Kernel& kernel, const ContractionNest& nest,
                                    const loop::Kernel& next);

}  // namespace caravan::schedule
