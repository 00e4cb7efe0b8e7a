#include "caravan/schedule/tile_choice.h"

#include <algorithm>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/target/block_size.h"

namespace caravan::schedule {

using namespace loop;

namespace {

using Loop = ContractionNest::Loop;

class Chooser {
 public:
  Chooser(const Module& module, const ContractionNest& nest, const Target& target, bool in_group)
      : module_(module), nest_(nest), target_(target), in_group_(in_group) {
    tiles_.outer = nest.outer;
    all_rows_ = nest.row.extent;
    for (const Loop& l : nest_.outer) (l.is_row ? all_rows_ : others_) *= l.extent;
    few_rows_ = all_rows_ < tuning().least_tile_rows;
    choose_tile();
    choose_rows();
    choose_packing();
    choose_columns();
    if (!tiles_.pack_columns && nest_.column.extent < tiles_.lanes) {
      tiles_.pack_columns = true;
      choose_columns();
    }
  }

  bool fits() const {
    const int64_t columns = nest_.column.extent;
    const bool large = few_rows_ ? !in_group_ && !tiles_.pack_columns &&
                                       is_large_row_product(all_rows_, others_ * columns, points(nest_.terms), tuning())
                                 : is_large_contraction(1, all_rows_, others_, columns, points(nest_.terms), tuning());
    if (!large || (in_group_ && nest_.slice > 0)) return false;
    const int64_t most = tuning().stack_elements, terms = nest_.terms_in_block(),
                  all_rows = points(tiles_.inner_rows) * tiles_.block_rows;
    const int64_t packed_columns = tiles_.share_columns ? 0 : tiles_.block_columns + tiles_.lanes;
    return terms * (tiles_.spread_rows ? tiles_.rows * tiles_.lanes : tiles_.block_rows) <= most &&
           terms * packed_columns <= most && (!nest_.is_blocked() || all_rows * tiles_.block_columns <= most);
  }
  const Tiles& tiles() const { return tiles_; }

 private:
  const Tuning& tuning() const { return target_.tuning; }

  // As many sums as there are registers, and few columns beyond the last.
  void choose_tile() {
    tiles_.lanes = int(target_.most_lanes(nest_.dtype));
    const int64_t vectors = (nest_.column.extent + tiles_.lanes - 1) / tiles_.lanes;
    tiles_.wide = vectors % tuning().wide_tile == 0 ? tuning().wide_tile : std::min(vectors, tuning().tile_vectors);
    if (few_rows_) {
      // A vector that is used for a single row needs no register: it is an operand in memory.
      const int64_t registers = all_rows_ + (all_rows_ > 1 ? 1 : 0);
      const int64_t most =
          std::min(tuning().row_vectors, (target_.vector_registers - target_.operand_registers) / registers);
      const int64_t parts = (vectors + most - 1) / most;
      tiles_.wide = (vectors + parts - 1) / parts;
    }
    const int64_t most = tuning().panel_rows;
    panel_ = std::clamp(nest_.row.extent / tuning().few_blocks, std::min(tuning().least_panel_rows, most), most);
  }
  int64_t column_tiles() const {
    const int64_t tile = tiles_.wide * tiles_.lanes;
    return (nest_.column.extent + tile - 1) / tile;
  }
  void choose_rows() {
    const int64_t blocks = (nest_.row.extent + panel_ - 1) / panel_;
    tiles_.parts_first = !in_group_ && (tiles_.outer.empty() ? blocks : tiles_.outer[0].extent) < tuning().few_blocks &&
                         column_tiles() >= tuning().least_column_tiles;
    const Load* rows = plain_load(module_, nest_, nest_.row_factor);
    // Rows of narrow floats are converted for every part: that pays only if a part has many tiles.
    if (!rows && load_of(nest_, nest_.row_factor) && column_tiles() < tuning().few_blocks * tuning().least_packed_tiles)
      tiles_.parts_first = false;
    if (tiles_.parts_first) panel_ = tuning().panel_rows / 2;  // rows need not be cut for threads then
    const int64_t tiles_of_part = column_tiles() / (tiles_.parts_first ? tuning().few_blocks : 1);
    tiles_.pack_rows = !rows || (tiles_of_part >= tuning().least_packed_tiles && is_far(*rows));
    // SSE cannot multiply a vector by an element in memory, but by a vector there.
    if (target_.vector_bytes == kShortestVector && tiles_of_part >= tuning().least_packed_tiles)
      tiles_.pack_rows = tiles_.spread_rows = true;
    if (in_group_) panel_ = tiles_.pack_rows || nest_.is_blocked() ? tuning().panel_rows / 2 : nest_.row.extent;
    // Loops over rows that stay inside of a block: so many that columns are packed for enough rows. Rows that are
    // packed would be packed again for every tile of columns. Sums that are kept in memory must fit there.
    int64_t count = nest_.row.extent;
    const int64_t most_rows = nest_.is_blocked()
                                  ? tuning().stack_elements / std::min(nest_.column.extent, tuning().block_columns)
                                  : INT64_MAX;
    for (size_t k = tiles_.outer.size(); k-- > 0;) {
      const bool wanted = count < tuning().least_panel_rows || (tiles_.parts_first && !tiles_.pack_rows);
      if (!wanted || !tiles_.outer[k].is_row || count * tiles_.outer[k].extent > most_rows) continue;
      tiles_.inner_rows.insert(tiles_.inner_rows.begin(), tiles_.outer[k]);
      count *= tiles_.outer[k].extent;
      tiles_.outer.erase(tiles_.outer.begin() + std::ptrdiff_t(k));
    }
    if (!tiles_.inner_rows.empty()) tiles_.pack_rows = !rows, tiles_.spread_rows = false;
    tiles_.block_rows = tiles_.inner_rows.empty() ? block_size(nest_.row.extent, panel_) : nest_.row.extent;
    // Besides the sums, registers hold the columns of a term, and two numbers to work with. With spread rows,
    // tiles for one number to work with were measured to be faster.
    const bool narrow = tiles_.spread_rows && !few_rows_;
    if (narrow) tiles_.wide = tuning().spread_vectors;
    const int64_t others = tiles_.wide + (narrow ? 1 : 2);
    const int64_t most = std::max<int64_t>(1, (target_.vector_registers - others) / tiles_.wide);
    tiles_.rows = block_size(tiles_.block_rows, most);
    // Too few sums to hide the latency of an addition cost more than a remainder does.
    if (tiles_.rows * tiles_.wide <= tuning().few_sums) tiles_.rows = std::min(tiles_.block_rows, most);
  }
  void choose_packing() {
    const Load* columns = plain_load(module_, nest_, nest_.column_factor);
    const int64_t row_tiles = points(tiles_.inner_rows) * ((tiles_.block_rows + tiles_.rows - 1) / tiles_.rows);
    const int64_t bytes_read = nest_.terms_in_block() * nest_.column.extent * bytes(nest_.dtype);
    tiles_.pack_columns = !columns || coefficient(columns->offset, nest_.column.variable) != 1 ||
                          (row_tiles >= tuning().least_packed_tiles && bytes_read > tuning().near_bytes);
    const bool alone = std::all_of(tiles_.outer.begin(), tiles_.outer.end(), [](const Loop& l) { return l.is_row; });
    const int64_t blocks = points(tiles_.outer) * ((nest_.row.extent + tiles_.block_rows - 1) / tiles_.block_rows);
    tiles_.share_columns = !in_group_ && tiles_.pack_columns && alone && blocks > 1 && is_complete(nest_.column_factor);
  }
  // Do the definitions of the nest compute the factor from nothing else than memory?
  bool is_complete(Register factor) const {
    const Block needed = needed_for(nest_.definitions, factor);
    std::set<Register> known;
    bool out = true;
    for (const Statement& s : needed) {
      for_each_use(s, [&](Register r) { out = out && known.count(r); });
      known.insert(std::get<Define>(s).to);
    }
    return out;
  }
  // Cuts the columns into blocks if threads would else have too few blocks to share, or if what a thread keeps of them
  // in memory (packed elements, sums) would be too large for the second-level cache. The more threads, the more blocks.
  void choose_columns() {
    const int64_t columns = nest_.column.extent, tile = tiles_.wide * tiles_.lanes,
                  unit = tiles_.spread_rows ? 1 : tile;
    int64_t most = columns;
    if (tiles_.pack_columns && !tiles_.share_columns)
      most = std::max(tile, tuning().panel_elements / nest_.terms_in_block());
    if (nest_.is_blocked())
      most = std::min(most, std::min(tuning().block_columns,
                                     std::max(tile, tuning().panel_elements / tiles_.block_rows / unit * unit)));
    // Spread rows are packed again for every block of columns: rather a tile more than another block.
    if (tiles_.spread_rows) most = (most + tile - 1) / tile * tile;
    int64_t parts = std::max((columns + most - 1) / most, in_group_ ? 1 : shared_parts());
    const bool is_long = nest_.is_blocked() && tiles_.pack_rows && !in_group_;
    const int64_t wanted = is_long ? tuning().blocks_a_thread * target_.threads : 1;
    while (other_blocks() * parts < wanted && columns / (2 * parts) >= tuning().least_halved_columns) parts *= 2;
    tiles_.block_columns = parts == 1 ? columns : (column_tiles() + parts - 1) / parts * tile;
    // If columns are read in place, the last block must fill a vector, which would else begin in the block before it.
    auto is_short = [&](int64_t rest) { return tiles_.overlap() && rest > 0 && rest < tiles_.lanes; };
    while (tiles_.block_columns < columns && is_short(columns % tiles_.block_columns)) tiles_.block_columns += tile;
    tiles_.block_columns = std::min(tiles_.block_columns, columns);
  }
  // How many blocks there would be if columns were not cut.
  int64_t other_blocks() const {
    return nest_.slices() * points(tiles_.outer) * ((nest_.row.extent + tiles_.block_rows - 1) / tiles_.block_rows);
  }
  // How many blocks of columns give all threads work. Rows that are packed are packed again for each of them.
  int64_t shared_parts() const {
    const int64_t blocks = other_blocks();
    const int64_t work = all_rows_ * others_ * nest_.column.extent * points(nest_.terms) / tiles_.lanes;
    const int64_t least =
        tiles_.pack_rows ? tuning().least_repacked : tuning().least_part_tiles * tiles_.wide * tiles_.lanes;
    return std::max<int64_t>(1, std::min({tuning().many_blocks / blocks, work / (blocks * tuning().chunk_work),
                                          nest_.column.extent / least}));
  }
  // Would rows that are read in place come from beyond the nearest cache?
  bool is_far(const Load& rows) const {
    const int64_t size = bytes(nest_.dtype), apart = coefficient(rows.offset, nest_.row.variable) * size,
                  terms = coefficient(rows.offset, nest_.terms.back().variable) * size;
    return terms >= tuning().far_bytes || (terms == size && apart % tuning().same_places == 0);
  }

  const Module& module_;
  const ContractionNest& nest_;
  const Target& target_;
  const bool in_group_;
  Tiles tiles_;
  int64_t all_rows_ = 1, others_ = 1;  // iterations of the loops over rows, and of the others but `column`
  bool few_rows_ = false;
  int64_t panel_ = 1;  // most rows of a block
};

}  // namespace

std::optional<Tiles> choose_tiles(const Module& module, const ContractionNest& nest, const Target& target,
                                  bool in_group) {
  const Chooser chooser(module, nest, target, in_group);
  return chooser.fits() ? std::optional(chooser.tiles()) : std::nullopt;
}

}  // namespace caravan::schedule
