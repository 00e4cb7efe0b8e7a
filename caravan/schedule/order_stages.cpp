#include "caravan/schedule/order_stages.h"

#include <algorithm>
#include <map>

#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

Module order_stages(const Module& module) {
  Module out = module;
  std::map<BufferId, int> written, read;  // the last stage so far that writes or reads a buffer
  for (Kernel& kernel : out.kernels) {
    int stage = 0;
    auto after = [&](const std::map<BufferId, int>& last, BufferId id) {
      if (auto at = last.find(id); at != last.end()) stage = std::max(stage, at->second + 1);
    };
    for_each_access(kernel, [&](const Access& a) {
      after(written, a.buffer);
      if (a.write) after(read, a.buffer);
    });
    for (const BufferId id : kernel.after) after(written, id);
    kernel.grid.stage = stage;
    for_each_access(kernel, [&](const Access& a) {
      int& last = (a.write ? written : read).try_emplace(a.buffer, stage).first->second;
      last = std::max(last, stage);
    });
  }
  std::stable_sort(out.kernels.begin(), out.kernels.end(),
                   [](const Kernel& a, const Kernel& b) { return a.grid.stage < b.grid.stage; });
  return out;
}

}  // namespace caravan::schedule
