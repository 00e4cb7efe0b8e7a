#include "caravan/schedule/tiled_nest.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"
#include "caravan/schedule/tile_loops.h"

namespace caravan::schedule {

using namespace loop;

namespace {

using Loop = ContractionNest::Loop;

class Tiler {
 public:
  Tiler(const Module& module, Kernel& kernel, const ContractionNest& nest, const Tiles& tiles, const Target& target,
        const RowUpdate* update = nullptr)
      : module_(module),
        kernel_(kernel),
        nest_(nest),
        tiles_(tiles),
        update_(update),
        lanes_(tiles.lanes),
        target_(target) {}

  Statement run() {
    const int64_t terms = nest_.terms_in_block();
    if (tiles_.pack_rows)
      packed_rows_ = array("rows", (tiles_.spread_rows ? tiles_.rows : tiles_.block_rows) * terms * copies());
    if (tiles_.pack_columns && !tiles_.share_columns)
      packed_columns_ = array("columns", padded(tiles_.block_columns) * terms);
    // One nest of loops around a block, so that threads can share the blocks of rows and columns.
    const std::vector<Sections> row_blocks = cut(nest_.row.extent, tiles_.block_rows),
                                column_blocks = cut(nest_.column.extent, tiles_.block_columns);
    const Loop rows{variable(nest_.row.variable, "_block"), count(row_blocks)};
    const Loop columns{variable(nest_.column.variable, "_block"), count(column_blocks)};
    Block body = each(row_blocks, rows.variable, [&](const Term& row, int64_t height) {
      return each(column_blocks, columns.variable,
                  [&](const Term& column, int64_t width) { return computed(row, height, column, width); });
    });
    std::vector<Loop> around = tiles_.outer;
    around.push_back(rows);
    around.insert(tiles_.parts_first ? around.begin() : around.end(), columns);
    if (nest_.slice > 0) around.insert(around.begin(), {*slice_, nest_.slices()});
    std::erase_if(around, [](const Loop& loop) { return loop.extent == 1; });
    if (around.empty()) around.push_back(rows);
    body = nested(around, std::move(body));
    return std::move(body[0]);
  }

  // If the terms are cut into slices, each block of `run` stores its sums for one slice. These loops add them up, and
  // do what follows.
  void store_slices(Memory buffer) { slices_ = buffer, slice_ = add_variable(kernel_, "slice"); }
  int64_t elements_of_slices() const {
    return nest_.slices() * points(nest_.outer) * nest_.row.extent * nest_.column.extent;
  }
  Statement added_slices() {
    const Loop rows{variable(nest_.row.variable, "_in"), nest_.row.extent};
    const Variable j = variable(nest_.column.variable, "_in");
    Block body;
    Register total = make();
    body.push_back(Define{total, Constant{0}});
    for (int64_t slice = 0; slice < nest_.slices(); ++slice) {
      const Register part =
          load(body, *slices_, in_slice(Term::number(slice), Term::iterator(rows.variable), Term::iterator(j)), 1);
      const Register sum = make();
      body.push_back(Define{sum, Apply{Op::add, nest_.dtype, {total, part, -1}}});
      total = sum;
    }
    append(body, epilogue(total, Term::iterator(rows.variable), Term::iterator(j)));
    std::vector<Loop> around = nest_.outer;
    around.push_back(rows);
    body = nested(around, block_with(vector_loop(j, nest_.column.extent, std::move(body))));
    return std::move(body[0]);
  }

  // The loops that pack all columns into a buffer, from which the tiles then read them: each statement is a kernel.
  Block share_columns(Memory buffer) {
    packed_columns_ = buffer;
    auto packed = [&](const TermLoops& terms) {
      Block out;
      for (const ColumnSections& section : column_sections(nest_.column.extent, lanes_, tiles_.wide))
        append(out, columns_packed(Term{}, section, terms));
      return out;
    };
    return nest_.is_blocked() ? term_blocks({}, packed) : packed({nest_.terms, {}, {}});
  }
  void read_columns(Memory buffer) { packed_columns_ = buffer; }
  int64_t padded(int64_t columns) const { return (columns + lanes_ - 1) / lanes_ * lanes_; }

 private:
  Variable variable(Variable of, const char* suffix) { return add_variable(kernel_, of, suffix); }
  Memory array(const char* name, int64_t elements) {
    return add_local(kernel_, {name, nest_.dtype, elements, Scope::thread, target_.tuning.alignment});
  }
  int64_t copies() const { return tiles_.spread_rows ? lanes_ : 1; }  // of a packed element of a row
  Register make(int width = 1) { return add_register(kernel_, {nest_.dtype, width}); }

  // --- blocks ---

  // What is made for each kind of section, in a loop over all of them: a guard chooses between two kinds.
  Block each(const std::vector<Sections>& sections, Variable number,
             const std::function<Block(const Term& first, int64_t size)>& make) {
    if (sections.size() == 1) return make(start_of(sections[0], number), sections[0].size);
    Block out;
    const Term first = Term::iterator(number, sections[0].size),
               past = Term::iterator(number) - Term::number(sections[0].count);
    out.push_back(If{{Term::number(-1) - past}, make(first, sections[0].size)});
    out.push_back(If{{past}, make(first, sections[1].size)});
    return out;
  }
  // A block of rows and columns, which is all that one thread computes at a time. If its terms are cut into blocks, its
  // sums are in memory, and blocks of terms are added to them one after the other.
  Block computed(const Term& row, int64_t rows, const Term& column, int64_t columns) {
    if (!nest_.is_blocked()) return columns_of(row, rows, column, columns, {nest_.terms, {}, {}});
    if (!sums_) sums_ = array("sums", points(tiles_.inner_rows) * tiles_.block_rows * tiles_.block_columns);
    Block out;
    const Variable e = add_variable(kernel_, "e");
    const Register zero = make();
    Block clear;
    clear.push_back(Define{zero, Constant{0}});
    clear.push_back(Store{*sums_, Term::iterator(e), zero});
    out.push_back(vector_loop(e, points(tiles_.inner_rows) * rows * tiles_.block_columns, std::move(clear)));
    append(out,
           term_blocks(slice_, [&](const TermLoops& terms) { return columns_of(row, rows, column, columns, terms); }));
    return out;
  }
  // Of one slice, or of all terms.
  Block term_blocks(std::optional<Variable> slice, const std::function<Block(const TermLoops&)>& make) {
    size_t at = 0;
    while (nest_.term_blocks[at] == 0) ++at;
    Block out;
    const Loop& loop = nest_.terms[at];
    std::vector<Loop> around(nest_.terms.begin(), nest_.terms.begin() + std::ptrdiff_t(at));
    const Term number = position(around) * loop.extent;
    const int64_t inside = points({nest_.terms.begin() + std::ptrdiff_t(at) + 1, nest_.terms.end()});
    Term first;  // iteration of the slice, in the loop that is cut or in the first one around it
    std::vector<std::pair<Variable, Term>> values;
    const int64_t of_slice = points(nest_.terms) / nest_.slices();
    const Term first_of_slice = slice ? Term::iterator(*slice, of_slice) : Term{};
    if (slice) first = Term::iterator(*slice, nest_.slice);
    if (slice && at > 0) {
      around[0] = {variable(nest_.terms[0].variable, "_in"), nest_.slice};
      values = {{nest_.terms[0].variable, first + Term::iterator(around[0].variable)}};
      first = Term{};
    }
    const std::vector<Sections> sections = cut(slice && at == 0 ? nest_.slice : loop.extent, nest_.term_blocks[at]);
    for (const Sections& section : sections) {
      const Variable block = variable(loop.variable, "_block"), in = variable(loop.variable, "_in");
      const Term begin = first + start_of(section, block);
      TermLoops terms{{nest_.terms.begin() + std::ptrdiff_t(at), nest_.terms.end()}, values, {}};
      terms.before = (terms.at(number) + begin) * inside;
      const bool may_be_last = !around.empty() || &section == &sections.back();
      terms.later = Term::number(may_be_last ? of_slice - section.size * inside : 1);
      if (may_be_last) terms.later = terms.later - terms.before + first_of_slice;
      terms.loops[0] = {in, section.size};
      terms.values.insert(terms.values.begin(), {loop.variable, begin + Term::iterator(in)});
      out.push_back(loop_over(block, section.count, make(terms)));
    }
    return nested(around, std::move(out));
  }
  Term in_slice(const Term& slice, const Term& row, const Term& column) const {
    const Term outer = slice * points(nest_.outer) + position(nest_.outer);
    return (outer * nest_.row.extent + row) * nest_.column.extent + column;
  }
  // All columns of a block, tile by tile.
  Block columns_of(const Term& row, int64_t rows, const Term& column, int64_t columns, const TermLoops& terms) {
    if (tiles_.spread_rows) return columns_of_spread(row, rows, column, columns, terms);
    Block out;
    const bool rows_first = tiles_.pack_rows && tiles_.inner_rows.empty();
    if (rows_first) out = rows_packed(row, rows, terms);
    Block tiles;
    for (const ColumnSections& section : column_sections(columns, lanes_, tiles_.wide)) {
      const Variable tile = variable(nest_.column.variable, "_tile");
      if (tiles_.pack_columns && !tiles_.share_columns) append(out, columns_packed(column, section, terms));
      Block body;
      if (tiles_.pack_rows && !rows_first) body = rows_packed(row, rows, terms);
      append(body, rows_of(row, rows, column, start_of(section, tile), section.wide, section.valid, terms));
      tiles.push_back(loop_over(tile, section.count, nested(tiles_.inner_rows, std::move(body))));
    }
    append(out, std::move(tiles));
    return out;
  }
  // The same, if the packed rows of one tile fill much of the nearest cache: all columns for a tile of rows, then the
  // next tile of rows.
  Block columns_of_spread(const Term& row, int64_t rows, const Term& column, int64_t columns, const TermLoops& terms) {
    Block out;
    const std::vector<ColumnSections> sections = column_sections(columns, lanes_, tiles_.wide);
    if (tiles_.pack_columns && !tiles_.share_columns)
      for (const ColumnSections& section : sections) append(out, columns_packed(column, section, terms));
    for (const Sections& some : cut(rows, tiles_.rows)) {
      const Variable tile = variable(nest_.row.variable, "_tile");
      const Term first = start_of(some, tile);
      Block body = rows_packed(row + first, some.size, terms);
      for (const ColumnSections& section : sections) {
        const Variable at = variable(nest_.column.variable, "_tile");
        body.push_back(loop_over(
            at, section.count,
            tile_of(row, first, some.size, column, start_of(section, at), section.wide, section.valid, terms)));
      }
      out.push_back(loop_over(tile, some.count, std::move(body)));
    }
    return out;
  }
  // All rows of a block, for one tile of columns.
  Block rows_of(const Term& row, int64_t rows, const Term& column, const Term& from, int64_t wide, int64_t valid,
                const TermLoops& terms) {
    Block out;
    for (const Sections& section : cut(rows, tiles_.rows)) {
      const Variable tile = variable(nest_.row.variable, "_tile");
      const Term first = start_of(section, tile);
      Block ahead = section.start == 0 ? prefetched(column, from, wide, {tile, section.count}, terms) : Block{};
      Block body = tile_of(row, first, section.size, column, from, wide, valid, terms, std::move(ahead));
      out.push_back(loop_over(tile, section.count, std::move(body)));
    }
    return out;
  }
  // Packed columns that do not fit into the second-level cache come from one that is farther away. While the tiles of
  // rows are multiplied by one tile of columns, each of them asks for a part of the next tile of columns, term by term.
  Block prefetched(const Term& column, const Term& from, int64_t wide, const Loop& row_tiles, const TermLoops& terms) {
    const int64_t element = bytes(nest_.dtype), line = kCacheLine / element, size = wide * lanes_,
                  panel = size * points(terms.loops), all = padded(nest_.column.extent) * points(nest_.terms);
    std::vector<Loop> tiles = tiles_.inner_rows;
    tiles.push_back(row_tiles);
    const int64_t in_term = (size + points(tiles) - 1) / points(tiles), in_tile = in_term * points(terms.loops);
    const bool is_near = target_.l2 == 0 || all * element <= target_.l2;
    if (!tiles_.share_columns || is_near || in_term > line) return {};
    const Term next = packed_tile(column, from + Term::number(size), terms);
    const bool nearest = (2 * panel + tiles_.rows * points(terms.loops)) * element <= target_.l1;
    const Term at = next + position(tiles) * in_tile + position(terms.loops) * in_term;
    return block_with(Prefetch{*packed_columns_, at, line, nearest});
  }

  // --- packing ---

  // Computes a factor and stores it at `to`.
  Block stored(Register factor, const Term& row, const Term& column, const TermLoops& terms, Memory memory,
               const Term& to) {
    Block out = at_point(kernel_, nest_, needed_for(nest_.definitions, factor), row, column, terms);
    const Register value = std::get<Define>(out.back()).to;
    out.push_back(Store{memory, to, value});
    return out;
  }
  // In the order in which tiles read them: tile by tile, and in each all rows of a term together.
  Block rows_packed(const Term& row, int64_t rows, const TermLoops& all_terms) {
    Block out;
    const Load* from = load_of(nest_, nest_.row_factor);
    const bool rows_inside = from && coefficient(from->offset, nest_.row.variable) == 1 && !tiles_.spread_rows;
    const TermLoops terms = nest_.guards.empty() ? joined(kernel_, all_terms, from) : all_terms;
    for (const Sections& section : cut(rows, tiles_.rows)) {
      const Variable tile = variable(nest_.row.variable, "_tile"), i = variable(nest_.row.variable, "_in");
      const Term first = start_of(section, tile);
      const Term to = first * points(terms.loops) + position(terms.loops) * section.size + Term::iterator(i);
      Block body =
          stored(nest_.row_factor, row + first + Term::iterator(i), Term{}, terms, *packed_rows_, to * copies());
      if (tiles_.spread_rows) {
        Store store = std::get<Store>(body.back());
        const Variable lane = add_variable(kernel_, "lane");
        store.offset = store.offset + Term::iterator(lane);
        body.back() = vector_loop(lane, lanes_, block_with(store));
      }
      body = rows_inside ? over_terms(nest_, terms, block_with(vector_loop(i, section.size, std::move(body))))
                         : block_with(loop_over(i, section.size, over_terms(nest_, terms, std::move(body))));
      out.push_back(loop_over(tile, section.count, std::move(body)));
    }
    return out;
  }
  // Tile by tile, and in each all columns of a term together. Columns beyond the last one are 0.
  Block columns_packed(const Term& column, const ColumnSections& section, const TermLoops& all_terms) {
    const int64_t size = section.size, valid = section.valid;
    const Load* load = load_of(nest_, nest_.column_factor);
    const TermLoops terms = joined(kernel_, all_terms, load);
    const Variable tile = variable(nest_.column.variable, "_tile"), j = variable(nest_.column.variable, "_in");
    const Term from = start_of(section, tile), to = packed_at(column, from, size, terms);
    auto over_tiles = [&](Block body) {
      return section.count > 1 ? block_with(loop_over(tile, section.count, std::move(body))) : body;
    };
    Block copy = block_with(vector_loop(j, valid,
                                        stored(nest_.column_factor, Term{}, column + from + Term::iterator(j), terms,
                                               *packed_columns_, to + Term::iterator(j))));
    // In the order of the operand's memory: neighbouring columns one after the other, or neighbouring terms.
    const bool columns_inside = load && coefficient(load->offset, nest_.column.variable) == 1;
    Block out = columns_inside ? nested(terms.loops, over_tiles(std::move(copy)))
                               : over_tiles(nested(terms.loops, std::move(copy)));
    if (valid == size) return out;
    const Variable rest = variable(nest_.column.variable, "_rest");
    const Register zero = make();
    Block pad;
    pad.push_back(Define{zero, Constant{0}});
    pad.push_back(Store{*packed_columns_, to + Term::number(valid) + Term::iterator(rest), zero});
    append(out, nested(terms.loops, block_with(vector_loop(rest, size - valid, std::move(pad)))));
    return out;
  }

  // --- tiles ---

  // `ahead` is what each term does first.
  Block tile_of(const Term& row, const Term& first, int64_t rows, const Term& column, const Term& from, int64_t wide,
                int64_t valid, const TermLoops& terms, Block ahead = {}) {
    Block out, body = std::move(ahead);
    std::vector<Register> sums(size_t(rows * wide)), columns;
    for (Register& sum : sums) out.push_back(Reset{sum = make(lanes_), 0});
    for (int64_t v = 0; v < wide; ++v) columns.push_back(column_vector(body, column, from, v, wide, valid, terms));
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
    // All vectors of the term have been loaded: the last one may overlap the one before it.
    for (int64_t v = 0; update_ && v < wide; ++v)
      append(body, updated(columns[size_t(v)], column + from + Term::number(start_of_vector(v, wide, valid))));
    append(out, over_terms(nest_, terms, std::move(body)));
    append(out, finished(sums, row, first, rows, column, from, wide, valid, terms));
    return out;
  }
  // The update of a vector of columns, whose old elements have been loaded.
  Block updated(Register old, const Term& column) {
    Block out = copied(kernel_, update_->body);
    substitute(out, nest_.column.variable, column);
    std::set<Register> vectors = {old};
    Register own_old = -1;
    for (size_t k = 0; k < out.size(); ++k) {
      auto* define = std::get_if<Define>(&out[k]);
      auto* load = define ? std::get_if<Load>(&define->value) : nullptr;
      auto* before = load ? std::get_if<Load>(&std::get<Define>(update_->body[k]).value) : nullptr;
      if (define && std::get<Define>(update_->body[k]).to == update_->old) own_old = define->to;
      if (before && coefficient(before->offset, nest_.column.variable) == 1) vectors.insert(define->to);
      if (auto* apply = define ? std::get_if<Apply>(&define->value) : nullptr)
        for (int arg = 0; arg < row(apply->op).arity; ++arg)
          if (vectors.count(apply->args[arg])) vectors.insert(define->to);
      if (auto* reset = std::get_if<Reset>(&out[k])) vectors.insert(reset->to);
    }
    std::erase_if(out, [&](const Statement& s) {
      auto* define = std::get_if<Define>(&s);
      return define && define->to == own_old;
    });
    for (const Register r : vectors) kernel_.registers[size_t(r)].width = lanes_;
    rename(out, {[&](Register r) { return r == own_old ? old : r; }, nullptr, nullptr});
    return out;
  }
  // Where the columns of a tile are packed, and those of a term in it: block by block of terms, then tile by tile.
  Term packed_tile(const Term& column, const Term& from, const TermLoops& terms) const {
    if (!tiles_.share_columns) return from * points(terms.loops);
    return terms.before * padded(nest_.column.extent) + (column + from) * points(terms.loops);
  }
  Term packed_at(const Term& column, const Term& from, int64_t size, const TermLoops& terms) const {
    return packed_tile(column, from, terms) + position(terms.loops) * size;
  }
  // Where a vector of a tile begins: within the tile, or before it if the last vector of a tile overlaps others.
  int64_t start_of_vector(int64_t v, int64_t wide, int64_t valid) const {
    return v + 1 == wide && tiles_.overlap() ? valid - lanes_ : v * lanes_;
  }
  Register column_vector(Block& body, const Term& column, const Term& from, int64_t v, int64_t wide, int64_t valid,
                         const TermLoops& terms) {
    if (tiles_.pack_columns)
      return load(body, *packed_columns_, packed_at(column, from, wide * lanes_, terms) + Term::number(v * lanes_),
                  lanes_);
    const Load in_memory =
        in_place(nest_.column_factor, Term{}, column + from + Term::number(start_of_vector(v, wide, valid)), terms);
    return load(body, in_memory.buffer, in_memory.offset, lanes_);
  }
  Register row_element(Block& body, const Term& row, const Term& first, int64_t i, int64_t rows,
                       const TermLoops& terms) {
    if (tiles_.pack_rows) {
      const Term tile = tiles_.spread_rows ? Term{} : first * points(terms.loops);
      const Register out =
          load(body, *packed_rows_, (tile + position(terms.loops) * rows + Term::number(i)) * copies(), int(copies()));
      // Without it, GCC multiplies each vector of columns by the element in memory. That takes as many instructions,
      // but more loads than a processor makes in the time of the multiplications.
      std::get<Load>(std::get<Define>(body.back()).value).once = tiles_.spread_rows;
      return out;
    }
    const Load from = in_place(nest_.row_factor, row + first + Term::number(i), Term{}, terms);
    return load(body, from.buffer, from.offset, 1);
  }
  // The load of a factor that is not packed.
  Load in_place(Register factor, const Term& row, const Term& column, const TermLoops& terms) {
    const Block load = at_point(kernel_, nest_, needed_for(nest_.definitions, factor), row, column, terms);
    return std::get<Load>(std::get<Define>(load.back()).value);
  }
  Register load(Block& body, Memory from, const Term& offset, int width) {
    const Register to = make(width);
    body.push_back(Define{to, Load{from, offset}});
    return to;
  }

  // What is done with the sums of a tile: they are stored, or given to the epilogue. If terms are cut into blocks, sums
  // are added to those of earlier blocks, which are in memory, and what follows is done with the last block.
  Block finished(const std::vector<Register>& sums, const Term& row, const Term& first, int64_t rows,
                 const Term& column, const Term& from, int64_t wide, int64_t valid, const TermLoops& terms) {
    // What `make(sum, i, j)` does, for the vectors of the tile, or for one element after the other.
    auto vectors = [&](auto&& make) {
      Block out;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t v = 0; v < wide; ++v)
          append(out, make(sums[size_t(i * wide + v)], Term::number(i), Term::number(start_of_vector(v, wide, valid))));
      return out;
    };
    auto elements = [&](auto&& make) {
      if (!tile_) tile_ = array("tile", tiles_.rows * tiles_.wide * lanes_);
      const int64_t before = std::max<int64_t>(0, -start_of_vector(wide - 1, wide, valid));  // columns of other tiles
      auto in_tile = [&](const Term& i, const Term& j) { return i * (wide * lanes_) + Term::number(before) + j; };
      Block out = vectors([&](Register sum, const Term& i, const Term& j) {
        return block_with(Store{*tile_, in_tile(i, j), sum});
      });
      const Variable i = variable(nest_.row.variable, "_in"), j = variable(nest_.column.variable, "_in");
      Block body;
      const Register sum = load(body, *tile_, in_tile(Term::iterator(i), Term::iterator(j)), 1);
      append(body, make(sum, Term::iterator(i), Term::iterator(j)));
      out.push_back(loop_over(i, rows, block_with(vector_loop(j, valid, std::move(body)))));
      return out;
    };
    auto done = [&](Register sum, const Term& i, const Term& j) {
      return finished(sum, row + first + i, column + from + j);
    };
    const bool whole = valid == wide * lanes_;
    if (!nest_.is_blocked()) return (whole || tiles_.overlap()) && is_stored() ? vectors(done) : elements(done);

    auto place = [&](const Term& i, const Term& j) {
      return (position(tiles_.inner_rows) * tiles_.block_rows + first + i) * tiles_.block_columns + from + j;
    };
    auto added = [&](Register sum, const Term& i, const Term& j) {
      return block_with(StoreCombine{*sums_, place(i, j), Accumulator::add, sum});
    };
    auto ended = [&](Register sum, const Term& i, const Term& j) {
      Block out;
      const int width = kernel_.registers[size_t(sum)].width;
      const Register before = load(out, *sums_, place(i, j), width), total = make(width);
      out.push_back(Define{total, Apply{Op::add, nest_.dtype, {before, sum, -1}}});
      append(out, done(total, i, j));
      return out;
    };
    auto with_others = [&] { return whole ? vectors(added) : elements(added); };
    auto with_last = [&] { return whole && is_stored() ? vectors(ended) : elements(ended); };
    if (terms.later.parts.empty()) return terms.later.constant > 0 ? with_others() : with_last();
    Block out;
    out.push_back(If{{terms.later - Term::number(1)}, with_others()});
    out.push_back(If{{Term{} - terms.later}, with_last()});
    return out;
  }
  // Is nothing done with a sum but that it is stored, beside those of other columns?
  bool is_stored() const {
    const Store* store = nest_.epilogue.size() == 1 ? std::get_if<Store>(&nest_.epilogue[0]) : nullptr;
    return slice_ ||
           (store && store->value == nest_.sum && module_.buffers[size_t(store->buffer)].dtype == nest_.dtype &&
            coefficient(store->offset, nest_.column.variable) == 1);
  }
  // What follows the sum of one element, or of a vector if it is only stored.
  Block finished(Register sum, const Term& row, const Term& column) {
    if (slice_) return block_with(Store{*slices_, in_slice(Term::iterator(*slice_), row, column), sum});
    return epilogue(sum, row, column);
  }
  Block epilogue(Register sum, const Term& row, const Term& column) {
    Block out = at_point(kernel_, nest_, nest_.epilogue, row, column, {});
    rename(out, {[&](Register r) { return r == nest_.sum ? sum : r; }, nullptr, nullptr});
    return out;
  }
  const Module& module_;
  Kernel& kernel_;
  const ContractionNest& nest_;
  const Tiles& tiles_;
  const RowUpdate* update_;  // of the columns, or null
  const int lanes_;
  const Target& target_;
  std::optional<Memory> packed_rows_, packed_columns_;
  std::optional<Memory> sums_;  // of a block, if its terms are cut into blocks
  std::optional<Memory> tile_;  // sums of a tile, for the epilogue
  std::optional<Memory> slices_;
  std::optional<Variable> slice_;  // the number of the slice that is computed
};

}  // namespace

Block tiled_nest(Module& module, Kernel& kernel, const ContractionNest& nest, const Tiles& tiles, const Target& target,
                 const RowUpdate* update) {
  Tiler tiler(module, kernel, nest, tiles, target, update);
  if (tiles.share_columns) {
    Kernel packing{"packed for " + kernel.name,
                   {"the columns of " + kernel.name + " in the order of its tiles"},
                   kernel.variables,
                   kernel.registers,
                   Block{},
                   {},
                   kernel.origins};
    const Memory buffer =
        add_buffer(module, packing.name, nest.dtype, tiler.padded(nest.column.extent) * points(nest.terms));
    for (Statement& part : Tiler(module, packing, nest, tiles, target).share_columns(buffer)) {
      module.kernels.push_back(packing);
      statements(module.kernels.back()).push_back(std::move(part));
    }
    tiler.read_columns(buffer);
  }
  if (nest.slice == 0) return block_with(tiler.run());
  tiler.store_slices(add_buffer(module, "slices of " + kernel.name, nest.dtype, tiler.elements_of_slices()));
  Block out = block_with(tiler.run());
  out.push_back(tiler.added_slices());
  return out;
}

}  // namespace caravan::schedule
