// How values that devices exchange are combined, and cut into messages. (How many bytes are collected before they are
// exchanged, and what a network is assumed to do, is in target.h and network.h.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace caravan {

// Elements of each row that a processor combines at a time, so that blocks of all rows are in the nearest cache.
// Chosen, not measured.
inline constexpr int64_t kCombinedAtOnce = 512;

// Threads of a block, and most blocks, of the kernel by which a GPU combines rows. Chosen, not measured.
inline constexpr unsigned kCombineThreads = 256, kMostCombineBlocks = 1024;

// Bytes. Up to so many, all processes send all they have to all others, and each combines everything: one round of
// messages instead of two. Chosen, not measured. Between two processes both ways send as many bytes, and one round is
// faster up to 1 MB (bench/all_reduce.cpp, two cores of an AMD EPYC: 256 KB in 26 us and not in 46, 1 MB in 118 and not
// in 169; 2 MB and more take as long).
inline constexpr int64_t kOneRound = 8 << 10, kOneRoundOfTwo = 2 << 20;

// Bytes; what has as many is sent by itself, without a copy. An estimate.
inline constexpr size_t kSentAlone = 32 << 10;

// Bytes. Up to 4096 with its header, Open MPI sends a message to a process of the same machine at once, and of a longer
// one its beginning, so that the receiver asks for the rest. Instead, messages up to kSentInPieces are sent in pieces
// of kSentAtOnce (4 KB in 2.1 us and not in 4.1, 8 KB in 4.1 and not in 5.9; 16 KB in 6 either way).
inline constexpr size_t kSentAtOnce = 4000, kSentInPieces = 8 << 10;

// Bytes. MPI counts those of a message in an int, so longer ones are sent in pieces of so many: a round number below
// 2 GB. Chosen, not measured.
inline constexpr size_t kMostSentAtOnce = 1 << 30;

}  // namespace caravan
