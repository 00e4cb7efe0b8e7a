// GPUs as the devices of a mesh, which exchange values by NCCL.
//
// NCCL's own reductions add in an order that depends on how the GPUs are connected. So only its messages are used: each
// GPU gets a part of the elements of all others, combines them in the order of all engines (backend::combine), and
// sends the result to all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caravan/backend/communicator.h"

namespace caravan::nccl {

// A communicator for each of these GPUs of this process, by rank. Two ranks cannot have one GPU: NCCL refuses that.
// Throws BackendError.
std::vector<std::shared_ptr<backend::Communicator>> make_communicators(const std::vector<int>& ordinals,
                                                                       const std::string& cache);
// The communicator of a process that has one GPU. `processes` makes them known to each other, compares programs, and
// stops all of them if one stops.
std::shared_ptr<backend::Communicator> make_communicator(std::shared_ptr<backend::Communicator> processes, int ordinal,
                                                         const std::string& cache);

// The version that was found, or why there is none, in words without a full stop. Never throws.
std::string note();

}  // namespace caravan::nccl
