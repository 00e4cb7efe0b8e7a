#include "placed.h"

#include <random>
#include <set>

#include "caravan/backend/interp/device.h"
#include "caravan/backend/mesh_device.h"
#include "caravan/backend/streams/streams.h"
#include "caravan/mesh/shard.h"
#include "caravan/ops/table.h"

namespace caravan {

Task placed_at_random(Task task, const Mesh& mesh, uint32_t seed, uint32_t one_in) {
  std::mt19937 random(seed);
  for (size_t b = 0; b < task.program.buffers.size(); ++b) {
    ir::Buffer& buffer = task.program.buffers[b];
    if (auto* state = std::get_if<ir::StateLeaf>(&buffer.kind)) state->of_optimizer = random() % 2 == 0;
    if (!std::holds_alternative<ir::Computed>(buffer.kind)) continue;
    const std::vector<int64_t> sizes = buffer.shape.sizes();
    std::set<std::string> used;  // axes of the mesh
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      if (const MeshAxis& over = mesh.axes[random() % mesh.axes.size()]; random() % one_in == 0 && sizes[axis] > 1 &&
                                                                         sizes[axis] % over.summed_parts() == 0 &&
                                                                         used.insert(over.name).second)
        task.program.placements.push_back({ir::BufferId(b), axis, over.name});
  }
  return task;
}

std::map<std::string, int> collectives_of(const Task& task, const Mesh& mesh) {
  std::map<std::string, int> out;
  for (const ir::Accumulation& a : mesh::shard(task.program, mesh, {}).accumulations) {
    if (!a.collective) continue;
    std::string kind(ir::name(a.collective->kind));
    if (a.collective->kind != ir::Collective::Kind::all_gather) kind += " " + std::string(row(a.accumulator).name);
    ++out[kind];
  }
  return out;
}

Outcome run_on_mesh(const Task& task, const Mesh& mesh, int times, const cc::DeviceOptions* compiled) {
  Task divided = task;
  divided.program = mesh::shard(task.program, mesh, {});
  if (!mesh.exchanges() && !mesh.axes.empty()) {  // one device that adds in parts
    cc::DeviceOptions options = compiled ? *compiled : cc::DeviceOptions{};
    options.threads = 1;
    return run_on(compiled ? *cc::make_device(options) : *interp::make_device(0, nullptr), divided, times);
  }
  std::vector<backend::Worker> workers;
  for (auto& communicator : streams::make_communicators(int(mesh.devices()))) {
    auto exchange = std::make_shared<backend::Exchange>(communicator, mesh);
    std::unique_ptr<backend::Device> device;
    if (compiled) {
      cc::DeviceOptions options = *compiled;
      options.exchange = exchange, options.threads = 1;
      device = cc::make_device(options);
    } else {
      device = interp::make_device(0, exchange);
    }
    workers.push_back({std::move(device), exchange});
  }
  return run_on(*backend::make_mesh_device(std::move(workers)), divided, times);
}

}  // namespace caravan
