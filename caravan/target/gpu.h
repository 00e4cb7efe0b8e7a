// What the compiler knows of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace caravan {

inline constexpr int64_t kGpuAlignment = 256;  // bytes, of memory that a GPU's driver gives and its libraries expect
// Bytes that are computed on the host while as many are copied to the GPU. Memory of the host that is used for the
// first time costs more than what is written to it, and so little of it is used again and again.
inline constexpr int64_t kStagedBytes = 16 << 20;
// Fewer bytes are computed before they are copied. Without memory for `kStagedBytes`, mnist-mlp starts 8 ms earlier on
// an H200.
inline constexpr int64_t kStagedAtLeast = 1 << 20;

// The defaults are those of an H200 (gpu_of gives those of others). Sizes of the hardware are those that NVIDIA or its
// driver tells. Of the other numbers, those were measured whose comment says so; the rest was chosen.
struct Gpu {
  int compute = 90;                  // its compute capability: 90 is 9.0
  int64_t multiprocessors = 132;     // each runs many threads at once
  int64_t threads_in_flight = 1024;  // of a multiprocessor, to hide the latency of memory; chosen, not measured
  int64_t warp = 32;                 // threads that run in lockstep
  int64_t least_threads = 128, most_threads = 1024;  // of a block that runs a whole program; most of any block
  int64_t threads = 256;                             // of a block, if a kernel does not need another number
  int64_t least_shared = 24;  // iterations; a shorter loop is not shared by lanes; chosen, not measured
  // A product of fewer rows, columns or terms, or of fewer multiplications, is not computed in tiles.
  int64_t least_tile = 8, least_tiled = 32'768;
  // A smaller weight is updated where its gradient is computed, even if that product then waits for the one beside it:
  // its kernel costs more. Measured on an H200: weights of 10,000 elements and fewer gain from one kernel, of 12,288
  // and more from two.
  int64_t least_apart = 12'288;
  // Fewer sums than `least_sums` of at least `many_terms` terms are not computed in tiles either.
  int64_t least_sums = 2048, many_terms = 4096;
  // A sum of at least `long_sum` terms into at most `few_sums` elements is computed in parts
  // (optimize/split_long_sums.h): `least_parts` to `most_parts` of at least `least_part` terms each.
  int64_t long_sum = 2048, few_sums = 8'192, least_parts = 4, most_parts = 64, least_part = 64;
  // Kernels are launched together if they have at most so many arguments (of 8 bytes; a launch takes 4 KiB), and each
  // at most so many blocks of threads. Chosen, not measured.
  int64_t most_arguments = 256, most_joined = 1024;
  int64_t few_blocks = 8;  // of threads; a kernel of no more can be delayed; chosen, not measured
  // Two kernels with more blocks than a GPU runs at once are launched together only if one of them is small: it has at
  // most 1 / `waiting_part` of the blocks that run at once. Then it does not matter that its blocks wait for others.
  // Chosen, not measured.
  int64_t waiting_part = 8;
  // Bytes of the rows that all groups read at once, and read again: half of the second-level cache. Measured for rows
  // of 50,304 bf16 that are read three times: 2.5 ms with 512 lanes, 3.4 to 3.6 ms with 32, 128, 256 or 1024.
  int64_t rows_in_cache = 30'000'000;
  int64_t most_spread = 32;  // most lanes of a group whose threads are not neighbours; chosen, not measured
  int64_t least_beside = 8;  // fewest such groups in a block: as many f32 as memory gives at a time
  // Fewest iterations for a lane of a group. Kernels whose blocks have more than `threads` do not join products in a
  // launch (order_stages), so a lane of such a block must have more of them to gain. Chosen, not measured.
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

Gpu gpu_of(int compute, int64_t multiprocessors);  // of an older or smaller GPU than an H200
// What a machine and a user decide. All other numbers follow from these.
std::vector<int64_t> given(const Gpu& gpu);

}  // namespace caravan
