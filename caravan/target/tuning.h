// How loops are cut for a processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace caravan {

inline constexpr int64_t kCacheLine = 64;  // bytes, of all processors in use; what is allocated begins at one

// Entries (loads, numbers and operations) of a formula that is computed again for each of its readers
// (optimize/inline_producers.h): it costs less than to store its result and load it. An estimate.
inline constexpr size_t kMostRepeated = 16;

// How loops are cut for a machine. The defaults were found by measurement; a tuning file may replace them
// (tuning_file.h).
struct Tuning {
  // How many partial sums a long sum has. The number decides how the sum rounds, and so it is the same for every
  // processor: a model gives the same numbers on all of them.
  int64_t sum_lanes = 8;
  int64_t least_summed = 32;  // terms; a shorter sum has no partial sums
  int64_t least_lanes = 8;    // iterations; a shorter innermost loop does not become a vector loop
  // Reads of each element; an operand that is read less often is not copied into another order.
  int64_t least_packed_reads = 16;
  int64_t vector_bytes = 32;  // size of the vectors that hold accumulators
  int64_t block_lanes = 16;   // most iterations of a vector loop that contains other loops
  int64_t block_rows = 4;     // most iterations of an unrolled loop around that vector loop
  // Iterations; shorter sums over elements that are read only once (a norm) are not put into a register tile.
  int64_t least_streamed = 12;
  // How many vectors of accumulators a register tile may have. Tiles of `few_sums` are enough to hide the latency of an
  // addition. A second round enlarges tiles to `many_sums`, which hides the latency of memory too, even where the
  // processor has fewer registers than that.
  int64_t few_sums = 8, many_sums = 24;
  // In scalar operations. A loop of less than `parallel_work` runs on one thread. A chunk, which a thread takes at a
  // time, has at least `chunk_work`: handing a chunk to a thread costs a few hundred operations.
  int64_t parallel_work = 50'000, chunk_work = 12'500;
  // Fewest vectors in a block of columns that a thread adds into a table (schedule/share_scatters.h): with fewer, the
  // index is loaded too often, with more there are too few blocks. An estimate.
  int64_t scatter_vectors = 2;
  int64_t nest_work = 400;  // a loop inside of a parallel one becomes parallel too if an iteration has so much
  int64_t most_chunks = 64;
  int64_t alignment = kCacheLine;  // bytes, of every buffer: a cache line
  int64_t most_vector_lanes = 64;  // iterations; a longer vector loop is left to the C compiler
  // A product of matrices (schedule/tile_contractions.h) of fewer rows, columns, terms or multiplications than these is
  // not computed in tiles. These numbers, too, decide how sums round.
  int64_t least_tile_rows = 4, least_tile_columns = 8, least_tile_terms = 8, least_tiled = 16'384;
  // Vectors in a row of a tile: `wide_tile` if that divides all of them, else at most `tile_vectors`.
  int64_t tile_vectors = 2, wide_tile = 3;
  // A product of fewer than `least_tile_rows` rows, such as a vector times a matrix, has tiles that are as high as it
  // is and at most `row_vectors` vectors wide. One of fewer than `least_row_product` multiplications has no tiles.
  int64_t least_row_product = 1024, row_vectors = 8;
  // A processor with SSE alone has no instruction that loads one number into all lanes of a vector. There each packed
  // element of a row is stored as a whole vector, and a tile is `spread_vectors` vectors wide, as measured.
  int64_t spread_vectors = 3;
  // Most rows whose elements are packed at a time, for the second-level cache; at least `least_panel_rows`, if there
  // are as many, so that columns are packed for enough rows.
  int64_t panel_rows = 256, least_panel_rows = 48;
  // Of a block: most columns of sums that are kept in memory, and most elements of columns that are packed, both for
  // the second-level cache.
  int64_t block_columns = 512, panel_elements = 128 * 1024;
  int64_t least_packed_tiles = 5;  // an operand that fewer tiles than this read is read in place
  // Rows are cut so that there are `few_blocks` blocks of them. Where there are fewer, and at least
  // `least_column_tiles` tiles of columns, columns are cut first.
  int64_t few_blocks = 8, least_column_tiles = 4;
  // How many blocks of rows and columns together are enough for all threads. To have as many, columns are cut into
  // blocks of at least `least_part_tiles` tiles, or of `least_repacked` columns if rows are packed for each block.
  int64_t many_blocks = 32, least_part_tiles = 2, least_repacked = 384;
  // Of a product whose terms are cut into blocks, and whose rows are packed: blocks of columns are halved, but not to
  // fewer than `least_halved_columns`, until there are `blocks_a_thread` blocks for each thread of the target. Then a
  // thread that is slower than the others holds them up for less time. Measured with 8 threads of a Sapphire Rapids:
  // blocks of 256 columns instead of 512 took 0.87 of the time for 1024 x 1024 x 1024 and 0.89 to 0.94 for
  // 2048 x 2048 x 2048, but 1.02 to 1.05 with one thread.
  int64_t blocks_a_thread = 8, least_halved_columns = 256;
  // Bytes. An operand of a product that is no larger stays in the nearest cache, and is not packed.
  int64_t near_bytes = 24 * 1024;
  // Bytes. Rows whose distance is a multiple of this have the same places in the nearest cache; terms whose distance is
  // at least `far_bytes` take a cache line each. Such rows are packed.
  int64_t same_places = 4096, far_bytes = 512;
  // Bytes. A program that needs less memory is not put into another order to need even less: its buffers stay in a
  // cache anyway.
  int64_t least_ordered = 1024 * 1024;
  int64_t stack_elements = 128 * 1024;  // of a local array of a kernel: half a megabyte of f32
  // Terms. A sum of more is cut into blocks of at most half as many, each added up by one tile: it decides how sums
  // round.
  int64_t most_terms = 256;
  // Of a product: at most `few_long_sums` sums are added in slices of at least `least_slice` terms, at most
  // `most_slices`. These numbers, too, decide how sums round.
  int64_t few_long_sums = 32'768, least_slice = 512, most_slices = 8;
  // The blocks of at most so many other sums are shared by threads, if there are at least `least_shared_blocks`:
  // threads can share the sums of each of them, too.
  int64_t few_shared_sums = 512, least_shared_blocks = 4;
  // Additions in a chain; these numbers, too, decide how sums round. A sum of more than `longest_chain` is cut into
  // blocks of at most `chain_block`, and their sums into blocks of at most `chain_outer_block`. The relative error of a
  // chain of n equal f32 terms is at most n/2 times 2^-24, which is 2e-6 for a block of 64. Measured: a product of
  // 1024 x 1024 matrices takes as long with innermost blocks of 64 as without blocks, and longer with blocks of 32.
  // Blocks of blocks cost no time and can be shorter. A sum that is not much longer than a block stays one chain.
  int64_t longest_chain = 256, chain_block = 64, chain_outer_block = 32;
  // Attention (schedule/cpu_attention.h): rows of a tile, most vectors in a row of it, and rows whose weights and
  // gradients are kept at a time; a multiple of the rows of a tile. Fewer are kept where rows are so long that more
  // than `attention_elements` numbers would be kept: they stay in the second-level cache.
  int64_t attention_rows = 6, attention_vectors = 4, attention_kept = 48, attention_elements = 128 * 1024;
  // Elements that a processor loads or stores in the time of one operation: a load of a vector of 8 counts as two
  // operations. An estimate, for the work of a loop (schedule/parallelize.h).
  int64_t moved_elements = 4;
  int64_t least_transposed = 4;  // elements along an edge of a block that is transposed in registers
  bool operator==(const Tuning&) const = default;
};

// The built-in numbers for a processor whose widest vector registers have so many bytes.
constexpr Tuning built_in_tuning(int64_t vector_bytes) {
  Tuning out;
  if (vector_bytes >= 64) out.vector_bytes = 64, out.block_lanes = 32;
  return out;
}

// Is a product of matrices large enough to be computed in tiles? `columns` is the extent of the innermost axis.
constexpr bool is_large_contraction(int64_t batch, int64_t rows, int64_t other_columns, int64_t columns, int64_t terms,
                                    const Tuning& tuning) {
  return rows >= tuning.least_tile_rows && columns >= tuning.least_tile_columns && terms >= tuning.least_tile_terms &&
         batch * rows * other_columns * columns * terms >= tuning.least_tiled;
}

// The same for a product of fewer rows than least_tile_rows.
constexpr bool is_large_row_product(int64_t rows, int64_t columns, int64_t terms, const Tuning& tuning) {
  return columns >= tuning.least_tile_columns && terms >= tuning.least_tile_terms &&
         rows * columns * terms >= tuning.least_row_product;
}

}  // namespace caravan
