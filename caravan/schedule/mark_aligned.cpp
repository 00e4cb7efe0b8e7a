#include "caravan/schedule/mark_aligned.h"

#include <algorithm>

#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

Module mark_aligned(const Module& module, const Target& target) {
  Module out = module;
  if (target.tuning.alignment % kCacheLine != 0) return out;
  for (Kernel& kernel : out.kernels)
    for_each_of<Define>(statements(std::as_const(kernel)), [&](const Define& s) {
      const auto* load = std::get_if<Load>(&s.value);
      if (!load || load->buffer.is_local() || kernel.registers[size_t(s.to)].width == 1) return;
      const ir::BufferId id = load->buffer;
      if (!std::holds_alternative<ir::Computed>(out.buffers[size_t(id)].kind)) return;
      if (std::ranges::find(kernel.aligned, id) == kernel.aligned.end()) kernel.aligned.push_back(id);
    });
  return out;
}

}  // namespace caravan::schedule
