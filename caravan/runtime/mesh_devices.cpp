#include "caravan/runtime/mesh_devices.h"

#include <algorithm>

#include "caravan/backend/mesh_device.h"
#include "caravan/backend/mpi/mpi.h"
#include "caravan/backend/nccl/nccl.h"
#include "caravan/backend/streams/streams.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/base/processors.h"
#include "caravan/runtime/device_name.h"
#include "caravan/runtime/devices.h"

namespace caravan {

namespace {

// The one table of engines.
struct Engine {
  const char* name;
  std::string (*note)();
};
constexpr Engine kEngines[] = {
    {"streams", [] { return std::string("workers of one process"); }}, {"mpi", mpi::note}, {"nccl", nccl::note}};
constexpr int64_t kMostDevices = 1024;  // of a mesh in one process

}  // namespace

std::vector<std::pair<std::string, std::string>> engines() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Engine& e : kEngines) out.emplace_back(e.name, e.note());
  return out;
}
std::vector<std::string> engine_names() {
  std::vector<std::string> out = {"auto"};
  for (const Engine& e : kEngines) out.emplace_back(e.name);
  return out;
}

namespace {

// Does each device of the mesh have a process of its own?
bool has_processes(const Mesh& mesh) {
  const int processes = mpi::launch().processes;
  const std::vector<std::string> names = engine_names();
  if (std::find(names.begin(), names.end(), mesh.engine) == names.end())
    throw ConfigError("`" + mesh.engine + "` is no engine of a mesh; there are: " + joined(names) + ".");
  if (mesh.engine == "streams" || (mesh.engine != "mpi" && processes == 1)) return false;
  if (processes == 1)
    throw ConfigError("the engine `mpi` is for processes that mpirun has started: mpirun -n " +
                      std::to_string(mesh.devices()) + " ...");
  if (mesh.devices() != processes)
    throw ConfigError("the mesh " + to_string(mesh) + " has " + std::to_string(mesh.devices()) +
                      " devices, but mpirun has started " + std::to_string(processes) + " processes.");
  return true;
}

// The name of the device that a worker has: as the mesh says; if it names only a kind, the GPUs take turns.
std::string name_of_worker(const ContextOptions& options, size_t worker) {
  const std::vector<std::string>& names = options.mesh.names;
  std::string name = names.empty() ? options.device : names[worker % names.size()];
  const DeviceKind& kind = device_kind(name);
  const int count = kind.is_gpu ? kind.count() : 0;
  if (!parse_device_name(name).ordinal && count > 0) name += ":" + std::to_string(int(worker) % count);
  return name;
}

// The GPUs by their numbers, each of which must be there once.
std::vector<int> gpus_of(const std::vector<std::string>& names) {
  std::vector<int> out;
  for (const std::string& name : names) {
    const DeviceName device = parse_device_name(name);
    if (!device_kind(name).is_gpu)
      throw ConfigError("the engine `nccl` is for GPUs, and the device `" + name + "` is none; use the device `cuda`.");
    out.push_back(device.ordinal.value_or(0));
    if (std::count(out.begin(), out.end(), out.back()) > 1)
      throw ConfigError("the engine `nccl` needs a GPU of its own for each device of the mesh; `" + name +
                        "` is there twice. The engine `streams` can share it.");
  }
  if (gpu_kind().count() == 0) throw ConfigError("the engine `nccl` cannot be used: " + gpu_kind().why_none() + ".");
  return out;
}

// One for each device of this process.
std::vector<std::shared_ptr<backend::Communicator>> make_communicators(const ContextOptions& options, bool processes,
                                                                       const std::vector<std::string>& names) {
  if (options.mesh.engine == "nccl") {
    const std::vector<int> gpus = gpus_of(names);
    if (processes) return {nccl::make_communicator(mpi::communicator(), gpus[0], options.cache)};
    return nccl::make_communicators(gpus, options.cache);
  }
  if (processes) return {mpi::communicator()};
  return streams::make_communicators(int(names.size()));
}

// Of each device, if this process has `devices` of them.
int threads_of_one(const ContextOptions& options, bool processes, size_t devices) {
  const int all = options.threads > 0 ? options.threads : processors().usable_by_one_of(mpi::launch().processes_here);
  return processes ? all : std::max(1, all / int(devices));
}

}  // namespace

std::vector<std::string> devices_of_process(const ContextOptions& options) {
  const Mesh& mesh = options.mesh;
  check(mesh);
  const bool processes = has_processes(mesh);
  if (!processes && mesh.devices() > kMostDevices)
    throw ConfigError("the mesh " + to_string(mesh) + " has " + std::to_string(mesh.devices()) +
                      " devices; one process has at most " + std::to_string(kMostDevices) +
                      ", and `caravan plan` computes what more would take.");
  std::vector<std::string> out;
  for (size_t k = 0; k < (processes ? 1 : size_t(mesh.devices())); ++k)
    out.push_back(name_of_worker(options, processes ? size_t(mpi::launch().rank_here) : k));
  if (mesh.engine == "nccl") gpus_of(out);
  return out;
}

std::unique_ptr<backend::Device> make_mesh(const ContextOptions& options, MakeOne make_one) {
  const Mesh& mesh = options.mesh;
  const std::vector<std::string> names = devices_of_process(options);
  const bool processes = has_processes(mesh);
  const auto communicators = make_communicators(options, processes, names);
  ContextOptions one = options;
  one.threads = threads_of_one(options, processes, names.size());
  std::vector<backend::Worker> workers;
  for (size_t k = 0; k < communicators.size(); ++k) {
    one.device = names[k];
    auto exchange = std::make_shared<backend::Exchange>(communicators[k], mesh);
    workers.push_back({make_one(one, exchange), exchange});
    one.compiling = nullptr;  // the others find what the first has compiled
  }
  if (processes) {
    backend::Communicator& all = workers[0].exchange->communicator();
    all.agree("another mesh", to_string(mesh) + mesh.batches + " " + mesh.optimizer_states);
    all.agree("another kind of device", workers[0].device->name());
    all.agree("another seed", std::to_string(options.seed));
  }
  return backend::make_mesh_device(std::move(workers));
}

}  // namespace caravan
