// The loops of a kernel that a function of the prelude runs: of a product of matrices, or of a sum into a table.
#pragma once

#include <vector>

#include "caravan/loop/loop.h"

namespace caravan::codegen {

// The loops by their kinds, outermost first, and the statements of their bodies.
struct CudaNest {
  std::vector<const loop::For*> batch, rows, columns, terms;
  loop::Block before, after;  // the definitions before the combination, and what follows it
  const loop::Reset* reset = nullptr;
  const loop::Combine* combine = nullptr;
  loop::If guard{};  // all conditions around the combination
};
// Adds what is in the block.
void take_apart(const loop::Block& block, CudaNest& out);

}  // namespace caravan::codegen
