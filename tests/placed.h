// Programs with axes placed at random, on several devices in one process.
#pragma once

#include "caravan/backend/cc/device.h"
#include "caravan/mesh/mesh.h"
#include "programs.h"

namespace caravan {

// Asks for one in `one_in` of the axes that can be divided, of values that are computed. Half of the states are taken
// for those of optimisers, which a mesh with `optimizer_states` divides.
Task placed_at_random(Task task, const Mesh& mesh, uint32_t seed, uint32_t one_in = 4);
// How many collectives the program of the task has on the mesh, by kind and accumulator: "all_reduce max".
std::map<std::string, int> collectives_of(const Task& task, const Mesh& mesh);
// The task on all devices of a mesh: interpreters, or processors with these options.
Outcome run_on_mesh(const Task& task, const Mesh& mesh, int times = 1, const cc::DeviceOptions* compiled = nullptr);

}  // namespace caravan
