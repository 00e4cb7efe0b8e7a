// Finds all sums of products of a program in their index maps alone, whatever their size: matrix products,
// convolutions, the products of attention, and all their gradients. It is for those who ask what became of them
// (plan/products.h). The passes look for contractions instead (contraction.h), which are those of them that tiles can
// compute; the two share no code, so that one shows what the other overlooks.
#pragma once

#include <string>
#include <vector>

#include "caravan/ir/program.h"

namespace caravan::optimize {

// In y[b, m, n] += x[b, m, k] * w[b, k, n], b is a batch, m a row, n a column and k a term. There are at least as many
// columns as rows; the product of a vector and a matrix has one row.
struct SumOfProducts {
  ir::BufferId target = -1;  // what it is added to
  std::string text{};        // of its accumulation (ir::readable)
  int64_t batch = 1, rows = 1, columns = 1, terms = 1;
};

// Leaves out sums of a single term or element.
std::vector<SumOfProducts> sums_of_products(const ir::Program& program);

}  // namespace caravan::optimize
