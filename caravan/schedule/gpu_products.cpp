#include "caravan/schedule/gpu_products.h"

#include <algorithm>
#include <map>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/schedule/product_nest.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// May the product be computed as if the factor that the guards belong to were 0 where they do not hold? They must
// belong to one factor alone, and the other one must be in range without them.
bool guards_one_factor(const ProductNest& nest, const Module& module) {
  auto in = [](const std::vector<For>& loops, Variable v) {
    return std::any_of(loops.begin(), loops.end(), [&](const For& f) { return f.variable == v; });
  };
  bool of_rows = false, of_columns = false;
  for (const Term& term : nest.guards)
    for (const Term::Part& part : term.parts) {
      if (part.kind != Term::Part::Kind::iterator) return false;
      of_rows = of_rows || in(nest.rows, part.which), of_columns = of_columns || in(nest.columns, part.which);
    }
  if (of_rows && of_columns) return false;
  std::map<Variable, int64_t> extents;
  for (const std::vector<For>* loops : {&nest.rows, &nest.columns, &nest.batch, &nest.terms})
    for (const For& f : *loops) extents[f.variable] = f.extent;
  const Register other = of_columns ? nest.left : nest.right;
  for (const Block* block : {&nest.before, &nest.point})
    for (const Statement& s : *block) {
      const Define& d = std::get<Define>(s);
      if (d.to != other) continue;
      auto* load = std::get_if<Load>(&d.value);
      if (!load || load->buffer.is_local()) return false;
      const LoopOffset offset = loop_offset(load->offset, {}, extents);
      const int64_t elements = module.buffers[size_t(load->buffer)].shape.elements();
      return offset.known && offset.fixed.empty() && offset.low >= 0 && offset.high < elements;
    }
  return false;
}

// The largest tile of which there are enough for all multiprocessors, else the smallest. Few tiles of many terms are
// computed in slices.
Contraction tiled(Contraction c, DType dtype, const Gpu& gpu) {
  auto tiles = [&](int64_t rows, int64_t columns) {
    return c.batch * ((c.rows + rows - 1) / rows) * ((c.columns + columns - 1) / columns);
  };
  for (const int64_t size : {int64_t(128), int64_t(64), int64_t(32)}) {
    c.tile_rows = c.tile_columns = size, c.own = size == 128 ? 8 : 4;
    if (tiles(size, size) * (size == 64 ? 2 : 1) >= gpu.multiprocessors) break;
  }
  // Slices have shared memory of their own, twice as much for numbers of 8 bytes.
  const int64_t most = (c.tile_rows == 32 ? 8 : c.tile_rows == 64 ? 2 : 1) / (bytes(dtype) == 8 ? 2 : 1);
  while (c.slices < most && c.terms >= 64 * c.slices &&
         tiles(c.tile_rows, c.tile_columns) * c.slices < 2 * gpu.multiprocessors)
    c.slices *= 2;
  return c;
}

}  // namespace

bool mark_product(const Module& module, Kernel& kernel, const std::vector<For*>& outer, const Target& target) {
  std::optional<ProductNest> found = product_nest(kernel, {outer.begin(), outer.end()});
  if (!found) return false;
  ProductNest& nest = *found;
  if (!nest.guards.empty() && !guards_one_factor(nest, module)) return false;
  const DType dtype = kernel.registers[size_t(nest.sum)].dtype;
  Contraction shape = nest.sizes();
  const Gpu& gpu = target.gpu;
  if (shape.rows < gpu.least_tile || shape.columns < gpu.least_tile || shape.terms < gpu.least_tile ||
      shape.batch * shape.rows * shape.columns * shape.terms < gpu.least_tiled)
    return false;
  shape = tiled(shape, dtype, gpu);
  shape.tf32 = gpu.tf32 && dtype == DType::f32;
  // Few sums of many terms: the lanes of groups share the terms of each.
  if (shape.batch * shape.rows * shape.columns < gpu.least_sums && shape.terms >= gpu.many_terms) return false;

  Block inner = std::move(nest.before);
  inner.push_back(Reset{nest.sum, 0});
  Block point = std::move(nest.point);
  point.push_back(Combine{nest.sum, Accumulator::add, nest.left, nest.right});
  if (!nest.guards.empty()) {
    Block guarded;
    guarded.push_back(If{std::move(nest.guards), std::move(point)});
    point = std::move(guarded);
  }
  auto wrap = [](std::vector<For>& loops, LoopKind kind, Block block) {
    int64_t chunk = 1;
    for (size_t k = loops.size(); k-- > 0;) {
      For f = std::move(loops[k]);
      f.kind = kind, f.chunk = chunk, f.body = std::move(block);
      chunk *= f.extent;
      block = Block();
      block.push_back(std::move(f));
    }
    return block;
  };
  append(inner, wrap(nest.terms, LoopKind::terms, std::move(point)));
  append(inner, std::move(nest.after));
  if (nest.batch.empty()) nest.batch.push_back({add_variable(kernel, "once"), 1, LoopKind::serial, {}});
  Block loops = wrap(nest.batch, LoopKind::grid,
                     wrap(nest.rows, LoopKind::rows, wrap(nest.columns, LoopKind::columns, std::move(inner))));
  kernel.body = std::move(loops);
  kernel.contractions = {shape};
  const int threads = int(shape.tile_rows * shape.tile_columns / (shape.own * shape.own) * shape.slices);
  kernel.grid = {threads, false, threads};
  return true;
}

}  // namespace caravan::schedule
