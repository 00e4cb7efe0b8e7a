// The workers of one process as the devices of a mesh.
#pragma once

#include <memory>
#include <vector>

#include "caravan/backend/communicator.h"

namespace caravan::streams {

// A communicator for each of `devices` threads, by rank. All-reduce: each device combines a part of all elements, in
// the memory of all. A device that stops wakes all that wait for it.
std::vector<std::shared_ptr<backend::Communicator>> make_communicators(int devices);

}  // namespace caravan::streams
