// What a step would take on devices that are not here: computed from the kernels and collectives of a plan, what each
// kernel takes, and what is known of the network.
//
// Assumptions:
// * All devices are equal, and begin a step at the same time. A kernel takes as long whatever is exchanged meanwhile.
// * Collectives run one after the other, in the order of the plan, beside the kernels: one begins when the
//   kernel before it has ended, and the collective before it. A `wait` ends when its collective has ended.
// * A message of S bytes takes latency + S / bandwidth. A device sends and receives at the same time, one message at a
//   time, and messages of different devices do not disturb each other.
// * An all_reduce of S bytes on n devices is a reduce_scatter and an all_gather. As a ring each of them has n - 1
//   messages of S/n bytes; as a tree, log2(n) messages, rounded up, of (n - 1)/n * S bytes together. An all_gather of S
//   bytes of each device has n - 1 messages of S bytes, or log2(n) messages of (n - 1) * S bytes together.
#pragma once

#include <algorithm>
#include <vector>

#include "caravan/plan/plan.h"
#include "caravan/target/network.h"

namespace caravan::plan {

struct Network {
  double bandwidth = kNetworkBandwidth;  // bytes a second that a device sends, and receives at the same time
  double latency = kNetworkLatency;      // seconds of a message without bytes
  bool tree = false;                     // otherwise a ring
};

// One collective of a step.
struct ClusterExchange {
  size_t kernel = 0;   // its number in the plan
  int64_t bytes = 0;   // that a device has before it
  int64_t sent = 0;    // by each device
  double seconds = 0;  // from begin to end
  double begins = 0;   // seconds from the begin of the step
};
struct ClusterStep {
  double seconds = 0;     // of a step
  double computing = 0;   // of this, in kernels
  double exchanging = 0;  // in collectives, some of which run beside kernels
  int64_t sent = 0;       // bytes that each device sends
  std::vector<ClusterExchange> exchanges;
  double hidden() const { return exchanging > 0 ? std::max(0.0, 1 - (seconds - computing) / exchanging) : 0; }
};

// `kernel_seconds` by kernel of plan.scheduled, those of collectives and waits not counted; `devices` by axis of the
// mesh.
ClusterStep step_on_cluster(const Plan& plan, const std::vector<double>& kernel_seconds,
                            const std::vector<int64_t>& devices, const Network& network);

}  // namespace caravan::plan
