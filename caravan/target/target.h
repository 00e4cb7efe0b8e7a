// What the compiler knows of a machine. Passes receive it as an argument and contain no numbers of a machine
// themselves. The command `doctor` prints it. The key of compiled kernels has the processor and the text that was made
// for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "caravan/ops/dtype.h"

namespace caravan {

inline constexpr int64_t kCacheLine = 64;      // bytes, of all processors in use; what is allocated begins at one
inline constexpr int64_t kGpuAlignment = 256;  // bytes, of memory that a GPU's driver gives and its libraries expect
// Bytes. Small collectives of devices are collected until they have so many: a call takes time whatever it sends.
inline constexpr int64_t kCombinedBytes = 256 << 10;
inline constexpr int64_t kShortestVector = 16;  // bytes; no processor in use has shorter vector registers

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
  int64_t parallel_work = 100'000, chunk_work = 25'000;
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
  int64_t block_columns = 512, panel_elements = 64 * 1024;
  int64_t least_packed_tiles = 5;  // an operand that fewer tiles than this read is read in place
  // Rows are cut so that there are `few_blocks` blocks of them. Where there are fewer, and at least
  // `least_column_tiles` tiles of columns, columns are cut first.
  int64_t few_blocks = 8, least_column_tiles = 4;
  // How many blocks of rows and columns together are enough for all threads. To have as many, columns are cut into
  // blocks of at least `least_part_tiles` tiles, or of `least_repacked` columns if rows are packed for each block.
  int64_t many_blocks = 32, least_part_tiles = 2, least_repacked = 384;
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
  // gradients are kept at a time, in the nearest cache; a multiple of the rows of a tile.
  int64_t attention_rows = 6, attention_vectors = 4, attention_kept = 48;
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

// What the compiler knows of a GPU. The defaults are those of an H200 (gpu_of gives those of others).
struct Gpu {
  int compute = 90;                                  // its compute capability: 90 is 9.0
  int64_t multiprocessors = 132;                     // each runs many threads at once
  int64_t threads_in_flight = 1024;                  // of a multiprocessor: enough to hide the latency of memory
  int64_t warp = 32;                                 // threads that run in lockstep
  int64_t least_threads = 128, most_threads = 1024;  // of a block that runs a whole program; most of any block
  int64_t threads = 256;                             // of a block, if a kernel does not need another number
  int64_t least_shared = 24;                         // iterations; a shorter loop is not shared by lanes
  // A product of fewer rows, columns or terms, or of fewer multiplications, is not computed in tiles.
  int64_t least_tile = 8, least_tiled = 32'768;
  // Fewer sums than `least_sums` of at least `many_terms` terms are not computed in tiles either.
  int64_t least_sums = 2048, many_terms = 4096;
  // A sum of at least `long_sum` terms into at most `few_sums` elements is computed in parts
  // (optimize/split_long_sums.h): `least_parts` to `most_parts` of at least `least_part` terms each.
  int64_t long_sum = 2048, few_sums = 8'192, least_parts = 4, most_parts = 64, least_part = 64;
  // Kernels are launched together if they have at most so many arguments, and each at most so many blocks of threads.
  int64_t most_arguments = 256, most_joined = 1024;
  int64_t few_blocks = 8;  // of threads; a kernel of no more can be delayed
  // Two kernels with more blocks than a GPU runs at once are launched together only if one of them is small: it has at
  // most 1 / `waiting_part` of the blocks that run at once. Then it does not matter that its blocks wait for others.
  int64_t waiting_part = 8;
  // Bytes of the rows that all groups read at once, and read again: half of the second-level cache. Measured for rows
  // of 50,304 bf16 that are read three times: 2.5 ms with 512 lanes, 3.4 to 3.6 ms with 32, 128, 256 or 1024.
  int64_t rows_in_cache = 30'000'000;
  int64_t most_spread = 32;  // most lanes of a group whose threads are not neighbours
  int64_t least_beside = 8;  // fewest such groups in a block: as many f32 as memory gives at a time
  // Fewest iterations for a lane of a group. Kernels whose blocks have more than `threads` do not join products in a
  // launch (order_stages), so a lane of such a block must have more of them to gain.
  int64_t lane_iterations = 4, large_block_iterations = 32;
  int64_t barriers = 15;  // of a block, for groups of several warps
  // Products are computed in square tiles. How many multiplications a multiprocessor makes in a cycle, measured, while
  // it has one tile to compute, and while it has several.
  struct TileRate {
    int64_t tile, alone, several;
    bool operator==(const TileRate&) const = default;
  };
  std::vector<TileRate> plain_rates = {{64, 68, 79}, {32, 48, 60}};
  std::vector<TileRate> tf32_rates = {{128, 200, 275}, {64, 136, 168}, {32, 55, 92}};
  std::vector<TileRate> half_rates = {{128, 400, 645}, {64, 257, 303}, {32, 148, 177}};  // of bf16 and f16
  // Bytes of a row of a factor in shared memory, a panel. A large tile has `stages` panels there at a time, a small one
  // at most `most_stages`. Two panels of a small tile are one if there are at least `long_panels`.
  int64_t panel_bytes = 128, stages = 3, most_stages = 4, long_panels = 6;
  int64_t most_slices = 8;  // blocks of threads that share the terms of a tile; 1 before compute capability 9.0
  // The slices of a tile run on neighbouring multiprocessors (a cluster of blocks). Clusters of `many_slices` or more
  // do not fill the whole GPU: only `clustered` of its multiprocessors have a block at a time.
  int64_t many_slices = 4, clustered = 115;
  int64_t slice_cycles = 2600;  // that adding the sums of slices takes, for all tiles that are computed at once
  int64_t tiles_at_once = 4;    // of a multiprocessor
  // What follows a sum loads for up to `loads_at_once` sums of a thread at a time, and waits `load_cycles` for them.
  // Found by trying all tiles of the products of mnist-mlp: its step became 10 % faster.
  int64_t loads_at_once = 8, load_cycles = 1500;
  int64_t shared_bytes = 227'328;         // of a block
  int64_t sure_shared_bytes = 48 * 1024;  // of a block, which every GPU gives without being asked
  // Blocks for which a multiprocessor should have registers, as measured: of products in tiles of at least `large_tile`
  // rows; of attention in bf16 or f16 whose rows have at most `short_depth` elements, and of its gradient.
  int64_t large_tile = 128, short_depth = 64;
  int large_tile_blocks = 2, attention_blocks = 4, attention_gradient_blocks = 3;
  int all_precisions = 80;  // compute capability from which on tensor cores multiply bf16, f16 and tf32
  // For estimates of the best rate: units of a multiprocessor that multiply f32, and how many times as fast as memory
  // the second-level cache is.
  double f32_units = 128, l2_rate = 2;
  // The compute capability whose warps multiply in groups of four (`wgmma`). Others do not have these instructions.
  int together = 90;
  bool early_kernels = true;  // can a kernel start while the one before it ends? From compute capability 9.0 on
  int64_t memory = 0;         // bytes; 0: not known
  // Bytes. A program that needs less memory is not put into another order to need even less (optimize/free_early.h): it
  // stays in the second-level cache anyway, and a gradient that runs late is computed together with its update.
  int64_t least_ordered = 64 * 1024 * 1024;
  // Comparisons. If a sum into a table needs no more of them, every element of the table looks at all indices
  // (schedule/gpu_scatters.h).
  int64_t most_matched = 50'000'000;
  int64_t table_blocks = 4;  // of threads for each multiprocessor, which divide the rows of a larger table
  // Bytes that a thread loads or stores at a time, and most elements (schedule/gpu_neighbours.h). If the lanes of a
  // group do not all have the same number of such pieces, they have at least `least_pieces`.
  int64_t access_bytes = 16, most_neighbours = 8, least_pieces = 4;
  // Iterations of a loop over the elements of a lane whose loads are on their way at the same time, as measured
  // (schedule/unroll_lanes.h). Indices below `most_narrow` have 32 bits, with room for sums of two.
  int lane_loads = 4;
  int64_t most_narrow = int64_t(1) << 30;
  // In operations. `auto` takes a GPU for a program that has at least as many: then a step takes about 50 microseconds
  // on one core of a processor and on a GPU alike.
  int64_t least_work = 5'000'000;
  // In operations. One block of threads runs all kernels of a program that has no more than this, many steps a launch.
  int64_t one_block_work = 400'000;
  size_t most_buffers = 480;  // of such a program: their addresses are arguments of the launch, which have 4 KiB
  // Bytes. Attention that tensor cores cannot compute stores its scores, if these are no more.
  int64_t stored_scores = 256'000'000;
  bool tf32 = false;  // may products of f32 round their factors to 10 bits of fraction (ContextOptions::tf32)?
  // Is there a library of products (cuBLASLt)? It is called for products (schedule/call_products.h) of at least `least`
  // multiplications, and of at least `per_byte` for each byte that is moved only because of the call. The numbers
  // follow from how long the products took on an H200 by the library and in tiles.
  bool library_products = false;
  struct Called {
    int64_t least, per_byte;
    bool operator==(const Called&) const = default;
  };
  Called called_f32{2'000'000'000, 40}, called_tf32{100'000'000, 30}, called_narrow{100'000'000, 30};
  bool operator==(const Gpu&) const = default;
};

struct Target {
  enum class Kind : uint8_t {
    cpu,   // this processor, through GNU C with vectors and threads
    c99,   // any processor, through plain C99 with one thread
    cuda,  // a GPU, through CUDA C++
  };
  Kind kind = Kind::cpu;
  std::string processor;      // the model name in /proc/cpuinfo
  int threads = 1;            // how many threads a run of a program may use
  int64_t vector_bytes = 16;  // of the widest vector register; 4 in a language without vectors
  int vector_registers = 16;
  int operand_registers = 2;  // of these, for the factors of a product; the others hold sums
  // The processor has fused multiply-add. Only contractions use it, where the order of their sums says so.
  bool fma = false;
  int64_t l1 = 0, l2 = 0, l3 = 0;  // bytes of data caches; 0: not known. No pass reads them so far.
  Tuning tuning{};
  Gpu gpu{};

  // How many numbers of this precision a vector of accumulators holds, and how many the widest register. Without
  // vectors it is 1.
  int64_t lanes(DType dtype) const { return std::max<int64_t>(1, tuning.vector_bytes / bytes(dtype)); }
  int64_t most_lanes(DType dtype) const { return std::max<int64_t>(1, vector_bytes / bytes(dtype)); }
  bool operator==(const Target&) const = default;
};

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

Target host(int threads = 0);  // this machine, with its tuning file; threads = 0: all that the process may use
// Of x86-64, beside SSE, which all of these processors have.
struct Instructions {
  bool avx = false, avx512 = false, fma = false;
};
// The target if a program may use no other instructions. Built-in tuning numbers become those for such vectors.
Target with_at_most(const Target& target, const Instructions& allowed);
Target plain_c();                                                      // a C99 compiler for an unknown processor
Gpu gpu_of(int compute, int64_t multiprocessors);                      // of an older or smaller GPU than an H200
Target gpu_target(const Gpu& gpu = {}, const std::string& name = "");  // a GPU of NVIDIA
std::string to_string(const Target& target);                           // a line

}  // namespace caravan
