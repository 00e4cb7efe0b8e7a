// How a GPU is given the steps of a program. Chosen, not tuned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace caravan {

// Steps of one launch of a program that runs in one block: a launch cannot be interrupted.
inline constexpr int64_t kMostInALaunch = 4096;

// Of a graph that runs several steps: the steps, and their launches. A launch of a graph costs about two microseconds
// beside its kernels.
inline constexpr int64_t kMostGraphSteps = 32, kMostGraphLaunches = 512;

// Steps that the GPU has not finished; then the next one waits.
inline constexpr int64_t kMostUnderWay = 64;

// As many launches of a stage run side by side.
inline constexpr size_t kBranches = 4;

// Bytes of memory that cuBLASLt may use for a product: what NVIDIA recommends for its newer GPUs.
inline constexpr uint64_t kLibraryWorkspace = 32 << 20;

}  // namespace caravan
