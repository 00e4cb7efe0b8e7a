#include "caravan/schedule/tile_contractions.h"

#include <optional>
#include <utility>

#include "caravan/loop/walk.h"
#include "caravan/schedule/contraction_nest.h"
#include "caravan/schedule/row_update.h"
#include "caravan/schedule/tile_choice.h"
#include "caravan/schedule/tiled_nest.h"

namespace caravan::schedule {

using namespace loop;

namespace {

Contraction contraction(const ContractionNest& nest, const Tiles& tiles, int64_t batch) {
  Contraction out{batch, nest.row.extent, nest.column.extent, points(nest.terms), tiles.rows, tiles.wide * tiles.lanes};
  for (const ContractionNest::Loop& l : nest.outer)
    (l.is_row ? out.rows : l.is_column ? out.columns : out.batch) *= l.extent;
  return out;
}

// Tiles the contractions of a block, which is inside of `around` iterations of the loops of a group. `next` is the
// kernel after this one, if there is one. Returns true if its statements have become part of this one.
bool tile(Module& module, Kernel& kernel, Block& block, const Target& target, int64_t around, bool in_group,
          const Kernel* next) {
  bool takes_next = false;
  rewrite(block, [&, last = &block.back()](Statement& s, Block& out) {
    auto* loop = std::get_if<For>(&s);
    if (loop && loop->group) {
      tile(module, kernel, loop->body, target, around * loop->extent, true, nullptr);
      return out.push_back(std::move(s));
    }
    std::optional<ContractionNest> nest = loop ? contraction_nest(module, kernel, *loop, target.tuning) : std::nullopt;
    if (loop && !nest && !in_group) nest = one_row_nest(module, kernel, *loop, target.tuning);
    const std::optional<Tiles> tiles = nest ? choose_tiles(module, *nest, target, in_group) : std::nullopt;
    if (!tiles) return out.push_back(std::move(s));
    const bool one_tile = !tiles->pack_columns && tiles->wide * tiles->lanes >= nest->column.extent;
    std::optional<RowUpdate> update;
    if (next && one_tile && &s == last) update = row_update(module, kernel, *nest, *next);
    takes_next = update.has_value();
    kernel.contractions.push_back(contraction(*nest, *tiles, around));
    append(out, tiled_nest(module, kernel, *nest, *tiles, target, update ? &*update : nullptr));
  });
  return takes_next;
}

}  // namespace

Module tile_contractions(const Module& module, const Target& target) {
  Module out = module;
  std::vector<Kernel> kernels = std::exchange(out.kernels, {});
  for (size_t k = 0; k < kernels.size(); ++k) {
    Kernel& kernel = kernels[k];
    const Kernel* next = k + 1 < kernels.size() ? &kernels[k + 1] : nullptr;
    if (has_statements(kernel) && tile(out, kernel, statements(kernel), target, 1, false, next)) {
      kernel.comments.insert(kernel.comments.end(), next->comments.begin(), next->comments.end());
      kernel.origins.insert(kernel.origins.end(), next->origins.begin(), next->origins.end());
      ++k;
    }
    out.kernels.push_back(std::move(kernel));
  }
  return out;
}

}  // namespace caravan::schedule
