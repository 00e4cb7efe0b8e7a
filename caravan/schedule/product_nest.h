// A sum of products in a kernel for a GPU, taken apart: which loops are rows, columns and terms, what is computed from
// memory for each factor, and what is done with the sum. In
//
//     for b: for i: for o:  r := 0;  for k: r += x[b, i, k] * w[b, k, o];  y[b, i, o] = tanh(r)
//
// b is a batch, i are rows, o columns and k terms, x is the left factor and w the right one, and the last statement is
// what follows.
#pragma once

#include <optional>

#include "caravan/loop/loop.h"

namespace caravan::schedule {

struct ProductNest {
  // Loops without their bodies, outermost first. Both factors or none depend on those of the batch; of the others, rows
  // belong to the left factor and columns to the right one.
  std::vector<loop::For> batch, rows, columns, terms;
  loop::Block before;              // definitions outside of the sum
  loop::Block point;               // definitions inside of all its loops
  std::vector<loop::Term> guards;  // a term counts only where they hold
  loop::Register sum = -1, left = -1, right = -1;
  loop::Block after;  // definitions, stores and guards, which can be executed for one sum after the other

  // How many there are of each, and no tiles yet.
  loop::Contraction sizes() const;
};

// The nest of a kernel whose independent outer loops are `outer`, if what they contain is one sum of products of floats
// and what follows it. The innermost outer loop is among the columns, if it is not a batch.
std::optional<ProductNest> product_nest(const loop::Kernel& kernel, const std::vector<const loop::For*>& outer);

}  // namespace caravan::schedule
