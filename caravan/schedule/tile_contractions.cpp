#include "caravan/schedule/tile_contractions.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"
#include "caravan/schedule/contraction_nest.h"
#include "caravan/target/block_size.h"

namespace caravan::schedule {

using namespace loop;

namespace {

using Loop = ContractionNest::Loop;

constexpr int64_t kLeastRows = 64;        // rows; shorter loops over rows stay inside of a block together
constexpr int64_t kLeastPanel = 48;       // rows of a block, unless there are fewer
constexpr int64_t kFewIterations = 8;     // a loop of fewer is not the one that threads share, if there is a better one
constexpr int64_t kMostParts = 16;        // into how many parts the columns are cut, for threads
constexpr int64_t kMostColumns = 512;     // columns of a block of sums that is kept in memory
constexpr int64_t kLeastPackedTiles = 3;  // an operand that fewer tiles than this read is read in place

// A loop cut into pieces: `count` of `size`, from `start` on. A loop has at most two: the whole ones and a remainder.
struct Pieces {
  int64_t start, count, size;
};
std::vector<Pieces> cut(int64_t extent, int64_t size) {
  std::vector<Pieces> out;
  if (extent >= size) out.push_back({0, extent / size, size});
  if (extent % size != 0) out.push_back({extent / size * size, 1, extent % size});
  return out;
}

For loop_over(Variable variable, int64_t extent, Block body, LoopKind kind = LoopKind::serial) {
  return For{variable, extent, kind, std::move(body)};
}
Block block_with(Statement s) {
  Block out;
  out.push_back(std::move(s));
  return out;
}
Block nested(const std::vector<Loop>& loops, Block body) {
  for (size_t k = loops.size(); k-- > 0;)
    body = block_with(loop_over(loops[k].variable, loops[k].extent, std::move(body)));
  return body;
}
int64_t points(const std::vector<Loop>& loops) {
  int64_t out = 1;
  for (const Loop& l : loops) out *= l.extent;
  return out;
}
// The position of the current iteration among all iterations of the nest.
Term position(const std::vector<Loop>& loops) {
  Term out;
  int64_t stride = 1;
  for (size_t k = loops.size(); k-- > 0; stride *= loops[k].extent)
    if (loops[k].extent > 1) out = out + Term::iterator(loops[k].variable, stride);
  return out;
}

class Tiler {
 public:
  Tiler(const Module& module, Kernel& kernel, const Target& target, ContractionNest nest)
      : module_(module), kernel_(kernel), target_(target), nest_(std::move(nest)), outer_(nest_.outer) {
    choose_tile();
    choose_columns();
    choose_rows();
    const int64_t row_tiles = points(inner_rows_) * ((block_rows_ + rows_ - 1) / rows_);
    const Load* columns = plain(nest_.column_factor);
    const int64_t bytes_read = nest_.terms_in_block() * nest_.column.extent * bytes(nest_.dtype);
    pack_columns_ = !columns || coefficient(columns->offset, nest_.column.variable) != 1 ||
                    block_columns_ % lanes_ != 0 ||
                    (row_tiles >= kLeastPackedTiles && bytes_read > tuning().near_bytes);
  }

  // Is the product large enough, and do its blocks fit on the stack?
  bool fits() const {
    int64_t rows = nest_.row.extent, others = 1, terms = 1;
    for (const Loop& l : nest_.outer) (l.is_row ? rows : others) *= l.extent;
    for (const Loop& l : nest_.terms) terms *= l.extent;
    if (!is_large_contraction(1, rows, others, nest_.column.extent, terms, tuning())) return false;
    const int64_t all_rows = points(inner_rows_) * block_rows_;
    return nest_.terms_in_block() * block_rows_ <= tuning().stack_elements &&
           nest_.terms_in_block() * wide_ * lanes_ <= tuning().stack_elements &&
           (!nest_.is_blocked() || all_rows * block_columns_ <= tuning().stack_elements);
  }

  Statement run() {
    if (pack_rows_) packed_rows_ = add_local("rows", block_rows_ * nest_.terms_in_block());
    if (pack_columns_) packed_columns_ = add_local("columns", wide_ * lanes_ * nest_.terms_in_block());
    const int64_t parts = nest_.column.extent / block_columns_;
    const Variable part = variable(nest_.column.variable, "_block");
    const Term column = parts > 1 ? Term::iterator(part, block_columns_) : Term{};
    auto within_part = [&](Block body) {
      return parts > 1 ? block_with(loop_over(part, parts, std::move(body))) : body;
    };
    Block body;
    for (const Pieces& rows : cut(nest_.row.extent, block_rows_)) {
      const Variable block = variable(nest_.row.variable, "_block");
      Block inside = computed(start_of(rows, block), rows.size, column);
      if (!parts_first_) inside = within_part(std::move(inside));
      body.push_back(loop_over(block, rows.count, std::move(inside)));
    }
    body = nested(outer_, std::move(body));
    if (parts_first_) body = within_part(std::move(body));
    if (body.size() == 1) return std::move(body[0]);
    return loop_over(variable(nest_.row.variable, "_all"), 1, std::move(body));
  }

 private:
  const Tuning& tuning() const { return target_.tuning; }
  Variable variable(Variable of, const char* suffix) {
    return add_variable(kernel_, kernel_.variables[size_t(of)] + suffix);
  }
  Memory add_local(const char* name, int64_t elements) {
    std::string free = name;
    auto taken = [&](const Local& local) { return local.name == free; };
    for (int n = 2; std::any_of(kernel_.locals.begin(), kernel_.locals.end(), taken); ++n)
      free = name + std::to_string(n);
    kernel_.locals.push_back({free, nest_.dtype, elements, Scope::thread});
    return Memory::local(int(kernel_.locals.size()) - 1);
  }
  Register make(int width = 1) { return add_register(kernel_, {nest_.dtype, width}); }

  // The load that the factor is, if nothing is computed from it before the multiplication.
  const Load* plain(Register factor) const {
    for (const Statement& s : nest_.definitions)
      if (auto& define = std::get<Define>(s); define.to == factor) {
        auto* load = std::get_if<Load>(&define.value);
        return load && !load->offset.has_load() && module_.buffers[size_t(load->buffer)].dtype == nest_.dtype ? load
                                                                                                              : nullptr;
      }
    return nullptr;
  }

  // --- choices ---

  // How many rows and vectors the tile has: as many sums as there are registers, and few columns beyond the last.
  void choose_tile() {
    lanes_ = int(target_.vector_bytes / bytes(nest_.dtype));
    const int64_t vectors = (nest_.column.extent + lanes_ - 1) / lanes_;
    wide_ = vectors % 3 == 0 ? 3 : std::min<int64_t>(vectors, 2);
    most_rows_ =
        (target_.vector_registers - wide_ - 2) / wide_;  // besides the sums: a row of columns, and two to work with
    panel_ =
        std::clamp(nest_.row.extent / kFewIterations, std::min(kLeastPanel, tuning().panel_rows), tuning().panel_rows);
  }
  // Cuts the columns into parts if threads would else have too few blocks to share, or if sums are kept in memory.
  void choose_columns() {
    block_columns_ = nest_.column.extent;
    const int64_t tile = wide_ * lanes_, tiles = nest_.column.extent / tile;
    if (nest_.column.extent % tile != 0) return;
    const int64_t blocks = (nest_.row.extent + panel_ - 1) / panel_;
    parts_first_ = (outer_.empty() ? blocks : outer_[0].extent) < kFewIterations && tiles >= 4;
    int64_t parts = 1;
    for (int64_t n = 1; n <= tiles; ++n) {
      const bool small = !nest_.is_blocked() || nest_.column.extent / n <= kMostColumns;
      if (tiles % n != 0 || (small && parts > 1 && n > kMostParts)) continue;
      parts = n;
      if (small && (!parts_first_ || n >= kFewIterations)) break;
    }
    block_columns_ = nest_.column.extent / parts;
  }
  void choose_rows() {
    const Load* rows = plain(nest_.row_factor);
    const int64_t tiles = (block_columns_ + wide_ * lanes_ - 1) / (wide_ * lanes_);
    pack_rows_ = !rows || (tiles >= kLeastPackedTiles && is_far(*rows));
    // Loops over rows that stay inside of a block: so many that columns are packed for enough rows. Rows that are
    // packed would be packed again for every tile of columns.
    int64_t count = nest_.row.extent;
    for (size_t k = outer_.size(); k-- > 0 && (count < kLeastRows || (parts_first_ && !pack_rows_));) {
      if (!outer_[k].is_row) continue;
      inner_rows_.insert(inner_rows_.begin(), outer_[k]);
      count *= outer_[k].extent;
      outer_.erase(outer_.begin() + std::ptrdiff_t(k));
    }
    if (!inner_rows_.empty()) pack_rows_ = !rows;
    block_rows_ = inner_rows_.empty() ? block_size(nest_.row.extent, panel_) : nest_.row.extent;
    rows_ = block_size(block_rows_, most_rows_);
  }
  // Would rows that are read in place come from beyond the nearest cache?
  bool is_far(const Load& rows) const {
    const int64_t size = bytes(nest_.dtype), apart = coefficient(rows.offset, nest_.row.variable) * size,
                  terms = coefficient(rows.offset, nest_.terms.back().variable) * size;
    return terms >= tuning().far_bytes || (terms == size && apart % tuning().same_places == 0);
  }

  // --- blocks ---

  // The loops over terms within a block, and what the variables of the nest's own loops are in them.
  struct Terms {
    std::vector<Loop> loops;
    std::vector<std::pair<Variable, Term>> values;
  };

  // A block of rows and columns, which is all that one thread computes at a time. If its terms are cut into blocks, its
  // sums are in memory, and blocks of terms are added to them one after the other.
  Block computed(const Term& row, int64_t rows, const Term& column) {
    if (!nest_.is_blocked()) return columns_of(row, rows, column, {nest_.terms, {}});
    if (!sums_) sums_ = add_local("sums", points(inner_rows_) * block_rows_ * block_columns_);
    Block out;
    const Variable e = add_variable(kernel_, "e");
    const Register zero = make();
    Block clear;
    clear.push_back(Define{zero, Constant{0}});
    clear.push_back(Store{*sums_, Term::iterator(e), zero});
    out.push_back(vector_loop(e, points(inner_rows_) * rows * block_columns_, std::move(clear)));
    append(out, term_blocks([&](const Terms& terms) { return columns_of(row, rows, column, terms); }));

    const Variable i = variable(nest_.row.variable, "_in"), j = variable(nest_.column.variable, "_in");
    std::vector<Loop> all = inner_rows_;
    all.push_back({i, rows});
    const Term at = position(all) * block_columns_ + Term::iterator(j);
    Block last = epilogue(*sums_, at, row + Term::iterator(i), column + Term::iterator(j));
    append(out, nested(all, block_with(vector_loop(j, block_columns_, std::move(last)))));
    return out;
  }
  Block term_blocks(const std::function<Block(const Terms&)>& make) {
    size_t at = 0;
    while (nest_.term_blocks[at] == 0) ++at;
    Block out;
    const Loop& loop = nest_.terms[at];
    for (const Pieces& piece : cut(loop.extent, nest_.term_blocks[at])) {
      const Variable block = variable(loop.variable, "_block"), in = variable(loop.variable, "_in");
      Terms terms{{nest_.terms.begin() + std::ptrdiff_t(at), nest_.terms.end()}, {}};
      terms.loops[0] = {in, piece.size};
      terms.values = {{loop.variable, start_of(piece, block) + Term::iterator(in)}};
      out.push_back(loop_over(block, piece.count, make(terms)));
    }
    return nested({nest_.terms.begin(), nest_.terms.begin() + std::ptrdiff_t(at)}, std::move(out));
  }
  static Term start_of(const Pieces& piece, Variable number) {
    return Term::number(piece.start) + (piece.count > 1 ? Term::iterator(number, piece.size) : Term{});
  }

  // All columns of a block, tile by tile.
  Block columns_of(const Term& row, int64_t rows, const Term& column, const Terms& terms) {
    Block out;
    const bool rows_first = pack_rows_ && inner_rows_.empty();
    if (rows_first) out = rows_packed(row, rows, terms);
    const int64_t vectors = (block_columns_ + lanes_ - 1) / lanes_;
    for (const Pieces& piece : cut(vectors, wide_)) {
      const Variable tile = variable(nest_.column.variable, "_tile");
      // Only the last tile has fewer columns than its vectors hold. It is a piece of its own then.
      const bool last = (piece.start + piece.count * piece.size) * lanes_ > block_columns_;
      auto add = [&](const Term& from, int64_t count, int64_t valid) {
        Block body;
        if (pack_columns_) body = columns_packed(column + from, piece.size, valid, terms);
        Block tiles;
        if (pack_rows_ && !rows_first) tiles = rows_packed(row, rows, terms);
        append(tiles, rows_of(row, rows, column, from, piece.size, valid, terms));
        append(body, nested(inner_rows_, std::move(tiles)));
        out.push_back(loop_over(count > 1 ? tile : variable(nest_.column.variable, "_tile"), count, std::move(body)));
      };
      const int64_t full = last ? piece.count - 1 : piece.count, size = piece.size * lanes_;
      if (full > 0)
        add(full > 1 ? Term::number(piece.start * lanes_) + Term::iterator(tile, size)
                     : Term::number(piece.start * lanes_),
            full, size);
      if (last) {
        const int64_t from = (piece.start + full * piece.size) * lanes_;
        add(Term::number(from), 1, block_columns_ - from);
      }
    }
    return out;
  }
  // All rows of a block, for one tile of columns.
  Block rows_of(const Term& row, int64_t rows, const Term& column, const Term& from, int64_t wide, int64_t valid,
                const Terms& terms) {
    Block out;
    for (const Pieces& piece : cut(rows, rows_)) {
      const Variable tile = variable(nest_.row.variable, "_tile");
      const Term first = start_of(piece, tile);
      out.push_back(loop_over(tile, piece.count, tile_of(row, first, piece.size, column, from, wide, valid, terms)));
    }
    return out;
  }

  // --- packing ---

  // Statements of the nest for other values of its loop variables, with registers of their own.
  Block at(const Block& block, const Term& row, const Term& column, const Terms& terms) {
    Block out = copied(kernel_, block);
    rename(out, {nullptr, nullptr, nullptr, [&](const Term::Part& part) {
                   if (part.kind == Term::Part::Kind::iterator) {
                     if (part.which == nest_.row.variable) return row * part.coefficient;
                     if (part.which == nest_.column.variable) return column * part.coefficient;
                     for (const auto& [variable, value] : terms.values)
                       if (part.which == variable) return value * part.coefficient;
                   }
                   return Term{0, {part}};
                 }});
    return out;
  }
  // Computes a factor and stores it at `to`.
  Block stored(Register factor, const Term& row, const Term& column, const Terms& terms, Memory memory,
               const Term& to) {
    Block out = at(needed_for(nest_.definitions, factor), row, column, terms);
    const Register value = std::get<Define>(out.back()).to;
    out.push_back(Store{memory, to, value});
    return out;
  }
  // In the order in which tiles read them: tile by tile, and in each all rows of a term together.
  Block rows_packed(const Term& row, int64_t rows, const Terms& terms) {
    Block out;
    for (const Pieces& piece : cut(rows, rows_)) {
      const Variable tile = variable(nest_.row.variable, "_tile"), i = variable(nest_.row.variable, "_in");
      const Term first = start_of(piece, tile);
      const Term to = first * points(terms.loops) + position(terms.loops) * piece.size + Term::iterator(i);
      Block body = stored(nest_.row_factor, row + first + Term::iterator(i), Term{}, terms, *packed_rows_, to);
      const Load* from = plain(nest_.row_factor);
      const bool rows_inside = from && coefficient(from->offset, nest_.row.variable) == 1;
      body = rows_inside ? nested(terms.loops, block_with(vector_loop(i, piece.size, std::move(body))))
                         : block_with(loop_over(i, piece.size, nested(terms.loops, std::move(body))));
      out.push_back(loop_over(tile, piece.count, std::move(body)));
    }
    return out;
  }
  // Columns beyond the last one are 0.
  Block columns_packed(const Term& column, int64_t wide, int64_t valid, const Terms& terms) {
    const int64_t size = wide * lanes_;
    const Variable j = variable(nest_.column.variable, "_in");
    const Term to = position(terms.loops) * size;
    Block body = block_with(vector_loop(j, valid,
                                        stored(nest_.column_factor, Term{}, column + Term::iterator(j), terms,
                                               *packed_columns_, to + Term::iterator(j))));
    if (valid < size) {
      const Variable rest = variable(nest_.column.variable, "_rest");
      const Register zero = make();
      Block pad;
      pad.push_back(Define{zero, Constant{0}});
      pad.push_back(Store{*packed_columns_, to + Term::number(valid) + Term::iterator(rest), zero});
      body.push_back(vector_loop(rest, size - valid, std::move(pad)));
    }
    return nested(terms.loops, std::move(body));
  }

  // --- tiles ---

  Block tile_of(const Term& row, const Term& first, int64_t rows, const Term& column, const Term& from, int64_t wide,
                int64_t valid, const Terms& terms) {
    Block out, body;
    std::vector<Register> sums(size_t(rows * wide)), columns;
    for (Register& sum : sums) out.push_back(Reset{sum = make(lanes_), 0});
    for (int64_t v = 0; v < wide; ++v) columns.push_back(column_vector(body, column + from, v, wide, terms));
    for (int64_t i = 0; i < rows; ++i) {
      const Register factor = row_element(body, row, first, i, rows, terms);
      for (int64_t v = 0; v < wide; ++v) {
        Combine add{sums[size_t(i * wide + v)], Accumulator::add, columns[size_t(v)], factor};
        if (!nest_.fused) {
          const Register product = make(lanes_);
          body.push_back(Define{product, Apply{Op::mul, nest_.dtype, {columns[size_t(v)], factor, -1}}});
          add.value = product, add.factor = -1;
        }
        body.push_back(add);
      }
    }
    append(out, nested(terms.loops, std::move(body)));
    append(out, finished(sums, row, first, rows, column, from, wide, valid));
    return out;
  }
  Register column_vector(Block& body, const Term& column, int64_t v, int64_t wide, const Terms& terms) {
    if (pack_columns_)
      return load(body, *packed_columns_, position(terms.loops) * (wide * lanes_) + Term::number(v * lanes_), lanes_);
    const Load from = in_place(nest_.column_factor, Term{}, column + Term::number(v * lanes_), terms);
    return load(body, from.buffer, from.offset, lanes_);
  }
  Register row_element(Block& body, const Term& row, const Term& first, int64_t i, int64_t rows, const Terms& terms) {
    if (pack_rows_)
      return load(body, *packed_rows_, first * points(terms.loops) + position(terms.loops) * rows + Term::number(i), 1);
    const Load from = in_place(nest_.row_factor, row + first + Term::number(i), Term{}, terms);
    return load(body, from.buffer, from.offset, 1);
  }
  // The load of a factor that is not packed.
  Load in_place(Register factor, const Term& row, const Term& column, const Terms& terms) {
    const Block load = at(needed_for(nest_.definitions, factor), row, column, terms);
    return std::get<Load>(std::get<Define>(load.back()).value);
  }
  Register load(Block& body, Memory from, const Term& offset, int width) {
    const Register to = make(width);
    body.push_back(Define{to, Load{from, offset}});
    return to;
  }

  // What is done with the sums of a tile: added to those in memory, stored, or given to the epilogue.
  Block finished(const std::vector<Register>& sums, const Term& row, const Term& first, int64_t rows,
                 const Term& column, const Term& from, int64_t wide, int64_t valid) {
    Block out;
    auto each = [&](auto&& visit) {
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t v = 0; v < wide; ++v) visit(sums[size_t(i * wide + v)], i, v * lanes_);
    };
    if (nest_.is_blocked() && valid == wide * lanes_) {
      each([&](Register sum, int64_t i, int64_t j) {
        const Term to =
            (position(inner_rows_) * block_rows_ + first + Term::number(i)) * block_columns_ + from + Term::number(j);
        out.push_back(StoreCombine{*sums_, to, Accumulator::add, sum});
      });
      return out;
    }
    const Store* store = nest_.epilogue.size() == 1 ? std::get_if<Store>(&nest_.epilogue[0]) : nullptr;
    const bool direct = !nest_.is_blocked() && store && store->value == nest_.sum && valid == wide * lanes_ &&
                        module_.buffers[size_t(store->buffer)].dtype == nest_.dtype &&
                        coefficient(store->offset, nest_.column.variable) == 1;
    if (direct) {
      each([&](Register sum, int64_t i, int64_t j) {
        Block one = at(nest_.epilogue, row + first + Term::number(i), column + from + Term::number(j), {});
        std::get<Store>(one[0]).value = sum;
        append(out, std::move(one));
      });
      return out;
    }
    if (!tile_) tile_ = add_local("tile", rows_ * wide_ * lanes_);
    each([&](Register sum, int64_t i, int64_t j) {
      out.push_back(Store{*tile_, Term::number(i * wide * lanes_ + j), sum});
    });
    const Variable i = variable(nest_.row.variable, "_in"), j = variable(nest_.column.variable, "_in");
    const Term in_tile = Term::iterator(i, wide * lanes_) + Term::iterator(j);
    Block body;
    if (nest_.is_blocked()) {
      const Register sum = load(body, *tile_, in_tile, 1);
      const Term to =
          (position(inner_rows_) * block_rows_ + first + Term::iterator(i)) * block_columns_ + from + Term::iterator(j);
      body.push_back(StoreCombine{*sums_, to, Accumulator::add, sum});
    } else {
      body = epilogue(*tile_, in_tile, row + first + Term::iterator(i), column + from + Term::iterator(j));
    }
    out.push_back(loop_over(i, rows, block_with(vector_loop(j, valid, std::move(body)))));
    return out;
  }
  // The epilogue of one element, whose sum is in a local.
  Block epilogue(Memory sums, const Term& at_sum, const Term& row, const Term& column) {
    Block out;
    const Register sum = load(out, sums, at_sum, 1);
    Block rest = at(nest_.epilogue, row, column, {});
    rename(rest, {[&](Register r) { return r == nest_.sum ? sum : r; }, nullptr, nullptr});
    append(out, std::move(rest));
    return out;
  }
  static For vector_loop(Variable variable, int64_t extent, Block body) {
    For out = loop_over(variable, extent, std::move(body));
    if (extent > 1 && side_by_side(out)) out.kind = LoopKind::vector;
    return out;
  }

  const Module& module_;
  Kernel& kernel_;
  const Target& target_;
  const ContractionNest nest_;
  std::vector<Loop> outer_;       // loops around a block of rows
  std::vector<Loop> inner_rows_;  // loops over rows inside of a block, around `row`
  int lanes_ = 1;                 // of a vector
  int64_t wide_ = 1;              // vectors in a row of a tile
  int64_t rows_ = 1;              // of a tile
  int64_t most_rows_ = 1;
  int64_t panel_ = 1;          // most rows of a block
  int64_t block_rows_ = 1;     // of a block, without `inner_rows_`
  int64_t block_columns_ = 1;  // of a block
  bool parts_first_ = false;   // the loop over blocks of columns is the outermost
  bool pack_rows_ = false, pack_columns_ = false;
  std::optional<Memory> packed_rows_, packed_columns_;
  std::optional<Memory> sums_;  // of a block, if its terms are cut into blocks
  std::optional<Memory> tile_;  // sums of a tile, for the epilogue
};

}  // namespace

Module tile_contractions(const Module& module, const Target& target) {
  Module out = module;
  for (Kernel& kernel : out.kernels)
    for (Statement& s : statements(kernel)) {
      auto* loop = std::get_if<For>(&s);
      std::optional<ContractionNest> nest = loop ? contraction_nest(kernel, *loop) : std::nullopt;
      if (!nest) continue;
      Tiler tiler(out, kernel, target, std::move(*nest));
      if (tiler.fits()) s = tiler.run();
    }
  return out;
}

}  // namespace caravan::schedule
