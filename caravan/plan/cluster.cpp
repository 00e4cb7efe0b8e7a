#include "caravan/plan/cluster.h"

#include <algorithm>
#include <bit>
#include <map>

#include "caravan/plan/cost.h"

namespace caravan::plan {

namespace {

// Of an all_gather or a reduce_scatter; an all_reduce has a round of each.
double messages_of_round(int64_t devices, const Network& network) {
  return network.tree ? double(std::bit_width(uint64_t(devices - 1))) : double(devices - 1);
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
    const int64_t n = devices.at(size_t(collective->exchange.mesh_axis));
    const ExchangeCost cost = exchange_cost(module, *call, n);
    ClusterExchange exchange{.kernel = k, .bytes = cost.bytes, .sent = int64_t(cost.sent)};
    const double rounds = collective->exchange.kind == ir::Collective::Kind::all_reduce ? 2 : 1;
    exchange.seconds = rounds * messages_of_round(n, network) * network.latency + cost.sent / network.bandwidth;
    exchange.begins = std::max(now, network_is_free);
    network_is_free = ends[k] = exchange.begins + exchange.seconds;
    out.exchanging += exchange.seconds, out.sent += exchange.sent;
    out.exchanges.push_back(exchange);
  }
  out.seconds = now;
  return out;
}

}  // namespace caravan::plan
