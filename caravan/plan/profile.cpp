#include "caravan/plan/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "caravan/base/printable.h"

namespace caravan::plan {

double KernelProfile::gflops() const { return microseconds > 0 ? double(cost.flops) / microseconds / 1e3 : 0; }
double KernelProfile::gigabytes() const {
  return microseconds > 0 ? double(cost.read_bytes + cost.written_bytes) / microseconds / 1e3 : 0;
}
double KernelProfile::of_peak() const { return microseconds > 0 ? least_microseconds / microseconds : 0; }

Profile make_profile(const Plan& plan, const std::vector<double>& nanoseconds, const Peaks& peaks) {
  Profile out;
  out.program = plan.program.name;
  out.target = to_string(plan.target);
  out.peaks = peaks;
  const loop::Module& module = plan.scheduled;
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    const loop::Kernel& kernel = module.kernels[k];
    KernelProfile row;
    row.number = k, row.name = kernel.name, row.from = kernel.comments;
    for (const std::string& origin : kernel.origins)
      if (std::find(row.origins.begin(), row.origins.end(), origin) == row.origins.end()) row.origins.push_back(origin);
    row.microseconds = nanoseconds[k] / 1e3;
    row.cost = cost(module, kernel);
    row.least_microseconds = 1e6 * peaks.seconds(row.cost.flops, row.cost.read_bytes + row.cost.written_bytes);
    row.loops = loop::loops_text(kernel);
    for (const loop::Contraction& c : kernel.contractions) row.tiles.push_back(loop::to_string(c));
    out.kernel_microseconds += row.microseconds;
    out.kernels.push_back(std::move(row));
  }
  for (KernelProfile& row : out.kernels)
    row.share = out.kernel_microseconds > 0 ? row.microseconds / out.kernel_microseconds : 0;
  std::stable_sort(out.kernels.begin(), out.kernels.end(),
                   [](const KernelProfile& a, const KernelProfile& b) { return a.microseconds > b.microseconds; });
  return out;
}

}  // namespace caravan::plan
