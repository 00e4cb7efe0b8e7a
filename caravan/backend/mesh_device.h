// The devices of a mesh as one device. A run of a plan is one run on each of them.
#pragma once

#include "caravan/backend/backend.h"
#include "caravan/backend/exchange.h"

namespace caravan::backend {

// A device of the mesh that belongs to this process.
struct Worker {
  std::unique_ptr<Device> device;  // runs collectives with `exchange`
  std::shared_ptr<Exchange> exchange;
};

// The workers are all devices of the mesh, by rank, or one of them; then the others are in other processes, which do
// the same. Plans are those of programs that mesh::shard has made. A state whose axes are divided is written to each
// device in part, and put together when it is read; in several processes, all of them must read it then.
std::unique_ptr<Device> make_mesh_device(std::vector<Worker> workers);

}  // namespace caravan::backend
