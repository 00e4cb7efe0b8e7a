#include "caravan/plan/cluster.h"

#include <algorithm>
#include <bit>
#include <map>

namespace caravan::plan {

namespace {

// The two halves of an all_reduce, and an all_gather: all devices together have `all` bytes, of which each gets, or
// gives away, all but its own part.
double seconds_of_half(int64_t all, int64_t devices, const Network& network) {
  const double n = double(devices), moved = double(all) * (n - 1) / n / network.bandwidth;
  const double messages = network.tree ? double(std::bit_width(uint64_t(devices - 1))) : n - 1;
  return messages * network.latency + moved;
}

}  // namespace

ClusterStep step_on_cluster(const Plan& plan, const std::vector<double>& kernel_seconds,
                            const std::vector<int64_t>& devices, const Network& network) {
  const loop::Module& module = plan.scheduled;
  ClusterStep out;
  double now = 0, network_is_free = 0;
  std::map<size_t, double> ends;  // by kernel that is a collective
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    const loop::LibraryCall* call = loop::library_call(module.kernels[k]);
    if (auto* wait = call ? std::get_if<loop::LibraryCall::Wait>(&call->function) : nullptr) {
      now = std::max(now, ends.at(wait->kernel));
      continue;
    }
    auto* collective = call ? std::get_if<loop::LibraryCall::Collective>(&call->function) : nullptr;
    if (!collective) {
      now += kernel_seconds[k], out.computing += kernel_seconds[k];
      continue;
    }
    ClusterExchange exchange{.kernel = k};
    for (const ir::BufferId id : call->reads) {
      const ir::Buffer& b = module.buffers[size_t(id)];
      exchange.bytes += b.shape.elements() * bytes(b.dtype);
    }
    const int64_t n = devices.at(size_t(collective->exchange.mesh_axis));
    const bool reduces = collective->exchange.kind == ir::Collective::Kind::all_reduce;
    const int64_t all = reduces ? exchange.bytes : exchange.bytes * n, halves = reduces ? 2 : 1;
    exchange.seconds = double(halves) * seconds_of_half(all, n, network);
    exchange.sent = halves * (all / n * (n - 1));
    exchange.begins = std::max(now, network_is_free);
    network_is_free = ends[k] = exchange.begins + exchange.seconds;
    out.exchanging += exchange.seconds, out.sent += exchange.sent;
    out.exchanges.push_back(exchange);
  }
  out.seconds = now;
  return out;
}

}  // namespace caravan::plan
