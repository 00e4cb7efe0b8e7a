#include "caravan/schedule/place_in_block.h"

#include <algorithm>
#include <map>

#include "caravan/loop/grid.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// Do no threads of the kernel wait for those of another warp? Such kernels run side by side in a block.
bool waits_for_none(const Kernel& kernel, const Gpu& gpu) {
  return has_statements(kernel) && kernel.contractions.empty() && !kernel.grid.spread && kernel.grid.lanes <= gpu.warp;
}
// That a kernel of this kind has work for: whole warps.
int64_t threads_with_work(const Kernel& kernel, const Gpu& gpu) {
  return (grid_iterations(kernel) * kernel.grid.lanes + gpu.warp - 1) / gpu.warp * gpu.warp;
}
// As many threads as the kernels of a stage have work for together; a power of two.
int threads_of_block(const Module& module, const Gpu& gpu) {
  int64_t needed = gpu.least_threads;
  std::map<int, int64_t> of_stage;
  for (const Kernel& kernel : module.kernels)
    if (waits_for_none(kernel, gpu))
      needed = std::max(needed, of_stage[kernel.grid.stage] += threads_with_work(kernel, gpu));
    else
      needed = std::max<int64_t>(
          needed, library_call(kernel) ? gpu.most_threads : std::max(kernel.grid.lanes, kernel.grid.threads));
  int64_t out = gpu.least_threads;
  while (out < std::min(needed, gpu.most_threads)) out *= 2;
  return int(out);
}

bool fits_in_a_block(const Module& module, const Gpu& gpu) {
  int64_t work = 0;
  for (const Kernel& kernel : module.kernels) {
    work += count_flops(kernel);
    const LibraryCall* call = library_call(kernel);
    if (!call) continue;
    auto* copy = std::get_if<LibraryCall::Copy>(&call->function);
    if (!copy) return false;  // a block cannot call a library
    work += copy->bytes;
  }
  return work <= gpu.one_block_work && module.buffers.size() <= gpu.most_buffers;
}

}  // namespace

Module place_in_block(const Module& module, const Target& target) {
  const Gpu& gpu = target.gpu;
  Module out = module;
  out.in_one_block = fits_in_a_block(module, gpu);
  out.block_threads = threads_of_block(module, gpu);
  int stage = -1;
  bool alone = true;  // the kernel before may not run side by side with another
  int64_t next = 0;   // the first thread of the next kernel
  for (Kernel& kernel : out.kernels) {
    Grid& grid = kernel.grid;
    const bool beside = waits_for_none(kernel, gpu), copy = library_call(kernel), waits = !copy && !beside;
    grid.waits_before = alone || waits || grid.stage < 0 || grid.stage != stage;
    if (grid.waits_before) next = 0;
    grid.first = beside ? int(next) : 0;
    if (beside) next = (next + threads_with_work(kernel, gpu)) % out.block_threads;
    stage = grid.stage, alone = waits;
  }
  return out;
}

}  // namespace caravan::schedule
