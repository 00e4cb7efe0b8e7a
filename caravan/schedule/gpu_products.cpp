#include "caravan/schedule/gpu_products.h"

#include <algorithm>
#include <map>
#include <set>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/schedule/product_nest.h"
#include "caravan/target/prelude_sizes.h"

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

// The precision of which a register has all its values, though it may be wider.
DType precision_of(Register r, const std::vector<const Define*>& definitions, const Module& module,
                   const Kernel& kernel) {
  for (const Define* d : definitions) {
    if (d->to != r) continue;
    if (auto* load = std::get_if<Load>(&d->value); load && !load->buffer.is_local())
      return module.buffers[size_t(load->buffer)].dtype;
    if (auto* cast = std::get_if<Cast>(&d->value)) return cast->to;
  }
  return kernel.registers[size_t(r)].dtype;
}

using Units = Contraction::Units;

// What multiplies these factors, and the precision in which they lie in shared memory.
std::pair<Units, DType> units_of(DType left, DType right, DType sum, const Gpu& gpu) {
  if (sum == DType::f32 && left == right && left == DType::bf16) return {Units::bf16, DType::bf16};
  if (sum == DType::f32 && left == right && left == DType::f16) return {Units::f16, DType::f16};
  return {gpu.tf32 && sum == DType::f32 ? Units::tf32 : Units::plain, sum};
}

// How a factor comes into shared memory. A factor that is an element of a buffer is copied, with some of its neighbours
// if these are one piece of memory whatever the indices are. `side` has the loops over rows, or those over columns.
Contraction::Factor come(Register factor, const std::vector<For>& side, const ProductNest& nest,
                         const std::vector<const Define*>& definitions, const Module& module, DType element) {
  Contraction::Factor out;
  const Load* whole = nullptr;  // if the factor is nothing but this
  std::set<Register> wanted = {factor};
  for (size_t k = definitions.size(); k-- > 0;) {
    const Define& d = *definitions[k];
    if (!wanted.count(d.to)) continue;
    for_each_use(d, [&](Register r) { wanted.insert(r); });
    auto* load = std::get_if<Load>(&d.value);
    out.along = out.along || (load && coefficient(load->offset, nest.terms.back().variable) == 1);
    if (d.to == factor) whole = load;
  }
  if (!whole || whole->buffer.is_local() || module.buffers[size_t(whole->buffer)].dtype != element) return out;
  const For& inner = out.along ? nest.terms.back() : side.back();
  auto piece = [&](int64_t n) {  // are `n` neighbours one piece, which begins at a multiple of its size?
    if (n == 1) return true;
    bool fits =
        coefficient(whole->offset, inner.variable) == 1 && inner.extent % n == 0 && whole->offset.constant % n == 0;
    for (const Term::Part& part : whole->offset.parts) {
      const bool is_inner = part.kind == Term::Part::Kind::iterator && part.which == inner.variable;
      fits = fits && (is_inner || part.coefficient % n == 0);
    }
    for (const Term& guard : nest.guards) fits = fits && coefficient(guard, inner.variable) == 0;
    return fits;
  };
  for (const int64_t size : prelude_sizes::kCopySizes)
    if (size >= bytes(element) && piece(size / bytes(element))) {
      out.copied = int(size);
      break;
    }
  return out;
}

// As prelude/product.cuh divides a tile: groups of threads share the terms of a small one.
bool has_groups(const Contraction& c) { return c.units == Units::plain && c.tile_rows == prelude_sizes::kGroupedTile; }
int64_t groups_of(const Contraction& c, int64_t sum) { return has_groups(c) ? prelude_sizes::kGroupBytes / sum : 1; }
int64_t threads_of(const Contraction& c, int64_t sum, const Gpu& gpu) {
  if (has_groups(c)) return groups_of(c, sum) * gpu.warp;
  return c.tile_rows == prelude_sizes::kLargeTile ? prelude_sizes::kLargeTileThreads : prelude_sizes::kTileThreads;
}

// Shared memory for the panels of both factors, or for the sums of a tile (prelude/product.cuh).
int64_t shared_bytes(const Contraction& c, int64_t element, int64_t sum) {
  auto panel = [&](const Contraction::Factor& f) {
    return f.along ? c.tile_rows * (c.depth + prelude_sizes::kRowGap / element)
                   : c.depth * (c.tile_rows + prelude_sizes::kColumnGap);
  };
  return std::max(c.stages * (panel(c.left) + panel(c.right)) * element,
                  groups_of(c, sum) * c.tile_rows * (c.tile_columns + prelude_sizes::kColumnGap) * sum);
}

// The tile, and the number of slices, by which the product is estimated to take the fewest cycles. Something is loaded
// beside each sum, such as a bias or the weight that it updates: the slices of a tile share these loads, and blocks
// that a multiprocessor has at once wait for them together. (Whether this product does so must not matter: it depends
// on what was fused, and the choice decides how sums round.)
Contraction tiled(Contraction c, DType element, DType sum, const Gpu& gpu) {
  const std::vector<Gpu::TileRate>& rates = c.units == Units::plain  ? gpu.plain_rates
                                            : c.units == Units::tf32 ? gpu.tf32_rates
                                                                     : gpu.half_rates;
  auto parts = [](int64_t whole, int64_t part) { return (whole + part - 1) / part; };
  Contraction best = c;
  int64_t least = -1;
  for (const Gpu::TileRate& rate : rates)
    for (int64_t slices = 1;
         slices <= gpu.most_slices && (slices == 1 || c.terms >= gpu.panel_bytes / bytes(element) * slices);
         slices *= 2) {
      c.tile_rows = c.tile_columns = rate.tile, c.slices = slices;
      c.depth = gpu.panel_bytes / bytes(element);
      if (has_groups(c) && c.terms >= gpu.long_panels * c.depth * slices) c.depth *= 2;
      const int64_t panels = parts(parts(c.terms, c.depth), slices);
      c.stages = has_groups(c) ? std::clamp<int64_t>(panels + 1, 2, gpu.most_stages) : gpu.stages;
      if (shared_bytes(c, bytes(element), bytes(sum)) > gpu.shared_bytes) continue;
      const int64_t blocks = c.batch * parts(c.rows, rate.tile) * parts(c.columns, rate.tile) * slices,
                    rounds = parts(blocks, slices < gpu.many_slices ? gpu.multiprocessors : gpu.clustered),
                    terms = panels * c.depth,
                    waits = parts(rate.tile * rate.tile, slices * threads_of(c, bytes(sum), gpu) * gpu.loads_at_once),
                    after = (slices > 1 ? gpu.slice_cycles : 0) + waits * gpu.load_cycles,
                    cycles = rounds * rate.tile * rate.tile * terms / (rounds > 1 ? rate.several : rate.alone) +
                             parts(rounds, gpu.tiles_at_once) * after;
      if (least < 0 || cycles < least) least = cycles, best = c;
    }
  return best;
}

bool guards_columns(const ProductNest& nest) {
  return std::any_of(nest.guards.begin(), nest.guards.end(), [&](const Term& guard) {
    return std::any_of(nest.columns.begin(), nest.columns.end(),
                       [&](const For& f) { return coefficient(guard, f.variable) != 0; });
  });
}

// What follows a sum: marks the loads of an element of its own for each sum, which nothing before them stores.
void mark_early(ProductNest& nest) {
  auto is_own = [&](const Term& offset) {
    bool out = false;
    for (const Term::Part& part : offset.parts) {
      if (part.kind == Term::Part::Kind::load) return false;
      for (const std::vector<For>* loops : {&nest.rows, &nest.columns})
        for (const For& f : *loops) out = out || (part.kind == Term::Part::Kind::iterator && part.which == f.variable);
    }
    return out;
  };
  std::set<ir::BufferId> written;
  for (Statement& s : nest.after) {
    auto* define = std::get_if<Define>(&s);
    auto* load = define ? std::get_if<Load>(&define->value) : nullptr;
    if (load && !load->buffer.is_local() && is_own(load->offset) && !written.count(load->buffer)) load->early = true;
    for_each_access(s, [&](const Access& a) {
      if (a.write) written.insert(a.buffer);
    });
  }
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
  std::vector<const Define*> definitions;
  for (const Block* block : {&nest.before, &nest.point})
    for (const Statement& s : *block) definitions.push_back(&std::get<Define>(s));
  const auto [units, element] = units_of(precision_of(nest.left, definitions, module, kernel),
                                         precision_of(nest.right, definitions, module, kernel), dtype, gpu);
  shape.units = units;
  shape.left = come(nest.left, nest.rows, nest, definitions, module, element);
  shape.right = come(nest.right, nest.columns, nest, definitions, module, element);
  if (!nest.guards.empty()) (guards_columns(nest) ? shape.right : shape.left).guarded = true;
  shape = tiled(shape, element, dtype, gpu);
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
  mark_early(nest);
  append(inner, std::move(nest.after));
  if (nest.batch.empty()) nest.batch.push_back({add_variable(kernel, "once"), 1, LoopKind::serial, {}});
  Block loops = wrap(nest.batch, LoopKind::grid,
                     wrap(nest.rows, LoopKind::rows, wrap(nest.columns, LoopKind::columns, std::move(inner))));
  kernel.body = std::move(loops);
  kernel.contractions = {shape};
  const int threads = int(threads_of(shape, bytes(dtype), gpu));
  kernel.grid = {threads, false, threads};
  kernel.grid.shared_bytes = shared_bytes(shape, bytes(element), bytes(dtype));
  if (shape.tile_rows >= gpu.large_tile) kernel.grid.resident = gpu.large_tile_blocks;
  return true;
}

}  // namespace caravan::schedule
