#include "apps/kernel_table.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "caravan/loop/grid.h"
#include "caravan/loop/walk.h"
#include "caravan/plan/cost.h"
#include "caravan/plan/products.h"

namespace caravan::app {

std::string kernel_table(const plan::Plan& plan, const plan::Profile* measured) {
  const loop::Module& module = plan.scheduled;
  const std::vector<plan::Product> products = plan::products(plan);
  std::map<size_t, double> shares;  // by kernel
  if (measured)
    for (const plan::KernelProfile& kernel : measured->kernels) shares[kernel.number] = kernel.share;
  auto share_text = [&](double share) { return measured ? fmt::format(" {:>6.1f}%", 100 * share) : ""; };

  std::string out = fmt::format("{:<28} {:>12} {:>12} {:>14}{}\n", "kernel", "bytes read", "written", "flops",
                                measured ? "   share" : "");
  plan::KernelCost total;
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    const loop::Kernel& kernel = module.kernels[k];
    const plan::KernelCost c = plan::cost(module, kernel);
    total.read_bytes += c.read_bytes, total.written_bytes += c.written_bytes, total.flops += c.flops;
    out += fmt::format("{:<28} {:>12} {:>12} {:>14}{}\n", fmt::format("{} {}", k, kernel.name), c.read_bytes,
                       c.written_bytes, c.flops, share_text(shares[k]));
    const std::string loops = loop::loops_text(kernel);
    out += fmt::format("  loops {}\n", loops.empty() ? "none" : loops);
    bool has_product = false;
    for (const plan::Product& p : products)
      if (p.kernel == k) out += fmt::format("  product of {}\n", plan::to_string(p)), has_product = true;
    if (!has_product)  // such as the kernel that adds up the slices of a product
      for (const loop::Contraction& c : kernel.contractions) out += fmt::format("  tiles {}\n", loop::to_string(c));
    if (module.in_one_block)
      out += fmt::format("  runs  in one block of {} threads, with all other kernels\n", module.block_threads);
    else if (kernel.grid.launch >= 0 && !loop::library_call(kernel))
      out += fmt::format("  runs  in launch {} of stage {}, {} blocks of {} threads\n", kernel.grid.launch,
                         kernel.grid.stage, loop::blocks_of(kernel, kernel.grid.threads), kernel.grid.threads);
    for (const std::string& comment : kernel.comments) out += fmt::format("  from  {}\n", comment);
  }
  return out + fmt::format("{:<28} {:>12} {:>12} {:>14}{}\n", fmt::format("{} kernels", module.kernels.size()),
                           total.read_bytes, total.written_bytes, total.flops, share_text(1));
}

std::string memory_table(const plan::Plan& plan) {
  const loop::Module& module = plan.scheduled;
  std::string out = fmt::format("{:<28} {:>12} {:>12}  {}\n", "buffer", "offset", "bytes", "kernels");
  for (const plan::Placement& p : plan.memory.placements) {
    const std::string last = p.last >= int(module.kernels.size()) ? "end" : std::to_string(p.last);
    out += fmt::format("{:<28} {:>12} {:>12}  {}..{}\n", module.buffers[size_t(p.buffer)].name, p.offset, p.bytes,
                       p.first, last);
  }
  out += fmt::format("{:<28} {:>12} {:>12}\n", "live at once", "", plan.memory.live);
  out += fmt::format("{:<28} {:>12} {:>12}  {:.2f} times that\n", "peak", "", plan.memory.bytes, plan.memory.ratio());

  std::set<ir::BufferId> used;
  for (const loop::Kernel& kernel : module.kernels)
    loop::for_each_access(kernel, [&](const loop::Access& access) { used.insert(access.buffer); });
  for (const ir::BufferId id : used) {
    const ir::Buffer& b = module.buffers[size_t(id)];
    const bool state = std::holds_alternative<ir::StateLeaf>(b.kind),
               data = std::holds_alternative<ir::DataLeaf>(b.kind);
    if (state || data)
      out += fmt::format("{:<28} {:>12} {:>12}  always\n", b.name, state ? "state" : "data",
                         b.shape.elements() * bytes(b.dtype));
  }
  return out;
}

}  // namespace caravan::app
