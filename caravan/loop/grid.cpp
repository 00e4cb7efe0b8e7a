#include "caravan/loop/grid.h"

#include <algorithm>

#include "caravan/loop/walk.h"

namespace caravan::loop {

int64_t grid_iterations(const Kernel& kernel) {
  if (const Attention* a = attention(kernel)) {
    const int64_t rows = a->part == Attention::Part::columns ? a->columns : a->rows;
    return a->batch * a->heads * ((rows + a->tile_rows - 1) / a->tile_rows);
  }
  const For* loop = find_of<For>(statements(kernel), [](const For& f) { return f.kind == LoopKind::grid; });
  if (!loop) return 0;
  int64_t tiles = 1;
  for (const Contraction& c : kernel.contractions)
    tiles = (c.rows + c.tile_rows - 1) / c.tile_rows * ((c.columns + c.tile_columns - 1) / c.tile_columns) * c.slices;
  return loop->extent * loop->chunk * tiles;
}
int64_t blocks_of(const Kernel& kernel, int threads) {
  const int64_t groups = kernel.contractions.empty() ? threads / std::max(kernel.grid.lanes, 1) : 1;
  return std::max<int64_t>(1, (grid_iterations(kernel) + groups - 1) / std::max<int64_t>(groups, 1));
}
int64_t cluster_of(const Kernel& kernel) { return kernel.contractions.empty() ? 1 : kernel.contractions[0].slices; }

void Launch::add(const Kernel& kernel) {
  threads = std::max(threads, kernel.grid.threads), resident = std::max(resident, kernel.grid.resident);
  shared_bytes = std::max(shared_bytes, kernel.grid.shared_bytes), cluster = std::max(cluster, cluster_of(kernel));
}
int64_t Launch::blocks(const Kernel& kernel) const {
  return (blocks_of(kernel, threads) + cluster - 1) / cluster * cluster;
}

}  // namespace caravan::loop
