// The sizes for which functions of codegen/prelude are written. A pass that leaves a kernel to such a function keeps to
// them. The test PreludeSizes compares them with the text of the prelude.
#pragma once

#include <cstdint>

namespace caravan::prelude_sizes {

// Products in tiles on a GPU (prelude/product.cuh). In a tile of `kGroupedTile` rows of plain multiplications, groups
// of a warp each share the terms: 32 divided by the bytes of a sum. Other tiles have `kTileThreads`, but those of
// `kLargeTile` rows `kLargeTileThreads`. A row of a panel is followed by `kRowGap` bytes if it runs along the terms,
// else by `kColumnGap` elements, and a row of sums by `kColumnGap` of them: so threads reach different banks of memory.
inline constexpr int64_t kGroupedTile = 32, kGroupBytes = 32, kTileThreads = 128, kLargeTile = 128,
                         kLargeTileThreads = 256, kRowGap = 16, kColumnGap = 8;

inline constexpr int64_t kCopySizes[] = {16, 8, 4};  // bytes that one asynchronous copy to shared memory can have

// Shared memory of a block in which lanes of a group add up their partial sums (prelude/cuda.cuh): as many bytes as
// 1024 threads have in numbers of 8 bytes. Sums into a table (prelude/scatter.cuh) need no more.
inline constexpr int64_t kAcrossBytes = 8192;

// Sums into a table on a GPU (prelude/scatter.cuh).
inline constexpr int64_t kMostTableRows = 128;  // of a block of threads

// Attention on a GPU (prelude/attention.cuh). Tensor cores take `kTerms` rows, and elements of a row, at a time. The
// sums of `kMostDepth` elements of a row fit into registers. Rows are copied to shared memory in pieces of `kCopied`
// bytes, and each is followed there by a gap, in elements. Four warps that multiply together do so with tiles of
// `kTogether` rows of as many elements of 16 bits, without gaps, which begin at multiples of `kTileAlignment` bytes.
inline constexpr int64_t kAttentionThreads = 128, kAttentionRows = 64, kTerms = 16, kMostDepth = 128, kCopied = 16,
                         kGap = 8, kPlainGap = 4, kTogether = 64, kTileAlignment = 1024;
inline constexpr int64_t kAttentionColumns[] = {64, 32, 16};  // of a tile; the first that fits into shared memory

// Attention on a processor (prelude/attention.h).
inline constexpr int64_t kScoreLanes = 8;      // partial sums of a row
inline constexpr double kHiddenScore = -1e30;  // of a position that is not seen

}  // namespace caravan::prelude_sizes
