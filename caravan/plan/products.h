// Which sums of products a plan computes (optimize/sums_of_products.h), and how. The list also has those that were left
// to plain loops.
#pragma once

#include <string>
#include <vector>

#include "caravan/plan/plan.h"

namespace caravan::plan {

struct Product {
  enum class Way : uint8_t {
    tiles,      // of rows and columns (schedule/tile_contractions.h)
    attention,  // a part of a kernel of attention
    library,    // a call of a library
    loops,      // like any other sum
  };
  size_t kernel = 0;                                    // its number
  ir::BufferId target = -1;                             // what it is added to
  int64_t batch = 1, rows = 1, columns = 1, terms = 1;  // of its tiles, if there are any
  Way way = Way::loops;
  int64_t tile_rows = 0, tile_columns = 0;  // if it is computed in tiles
  int64_t flops() const { return 2 * batch * rows * columns * terms; }
};

// In the order of their kernels.
std::vector<Product> products(const Plan& plan);

// "128 rows, 512 columns, 784 terms: 102760448 flops, in tiles of 8 x 32"
std::string to_string(const Product& product);

}  // namespace caravan::plan
