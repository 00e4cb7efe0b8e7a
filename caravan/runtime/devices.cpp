#include "caravan/runtime/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "caravan/backend/cc/about_compiler.h"
#include "caravan/backend/cc/device.h"
#include "caravan/backend/cc/find_compiler.h"
#include "caravan/backend/cc/self_test.h"
#include "caravan/backend/cuda/device.h"
#include "caravan/backend/interp/device.h"
#include "caravan/backend/mesh_device.h"
#include "caravan/backend/mpi/mpi.h"
#include "caravan/backend/nccl/nccl.h"
#include "caravan/backend/streams/streams.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/base/processors.h"

namespace caravan {

namespace {

using ExchangeRef = std::shared_ptr<backend::Exchange>;  // null if the device is not one of a mesh

std::unique_ptr<backend::Device> make_cpu(const ContextOptions& options, int, ExchangeRef exchange) {
  cc::DeviceOptions device;
  device.exchange = std::move(exchange);
  device.seed = options.seed;
  device.threads = options.threads;
  device.compiler.progress = options.compiling;
  device.quick_start = options.quick_start;
  device.compiler.cache = options.cache;
  device.compiler.flags.insert(device.compiler.flags.end(), options.compiler_flags.begin(),
                               options.compiler_flags.end());
  return cc::make_device(device);
}
std::unique_ptr<backend::Device> make_cuda(const ContextOptions& options, int ordinal, ExchangeRef exchange) {
  return cuda::make_device({.seed = options.seed,
                            .ordinal = ordinal,
                            .cache = options.cache,
                            .tf32 = options.tf32,
                            .exchange = std::move(exchange),
                            .compiling = options.compiling});
}
std::unique_ptr<backend::Device> make_interp(const ContextOptions& options, int, ExchangeRef exchange) {
  return interp::make_device(options.seed, std::move(exchange));
}

// The one table of devices.
struct Kind {
  const char* name;
  int (*count)();  // of devices here, numbered from 0
  std::unique_ptr<backend::Device> (*make)(const ContextOptions&, int ordinal, ExchangeRef exchange);
  std::string (*note)(const cc::CompilerFacts&);
};
constexpr Kind kKinds[] = {
    // However many cores it has, a machine is one device that runs a step on all of them.
    {"cpu", [] { return 1; }, make_cpu, [](const cc::CompilerFacts& compiler) { return cc::to_string(compiler); }},
    {"interp", [] { return 1; }, make_interp,
     [](const cc::CompilerFacts&) { return std::string("the interpreter, in double precision, one thread"); }},
    {"cuda", [] { return cuda::facts().count; }, make_cuda,
     [](const cc::CompilerFacts&) {
       const cuda::Facts& facts = cuda::facts();
       return facts.count > 0 ? facts.note + ", " + cuda::library_note() : facts.note;
     }},
};

constexpr int64_t kMostDevices = 1024;  // of a mesh in one process

[[noreturn]] void refuse_kind(const std::string& kind) {
  throw ConfigError("device kind `" + kind + "` is not built into this library; it has: " + joined(device_names()) +
                    ".");
}
[[noreturn]] void refuse_ordinal(const std::string& device) {
  std::vector<std::string> there;
  for (const Kind& k : kKinds)
    for (int n = 0; n < k.count(); ++n) there.push_back(std::string(k.name) + ":" + std::to_string(n));
  throw ConfigError("there is no `" + device + "`; this machine has " + joined(there) + ".");
}

}  // namespace

std::vector<DeviceKind> device_kinds(const cc::CompilerFacts& compiler) {
  std::vector<DeviceKind> out;
  for (const Kind& k : kKinds)
    out.push_back({k.name, k.count() > 0 && (k.make != make_cpu || compiler.works()), k.note(compiler)});
  return out;
}
namespace {
// The one table of engines.
struct Engine {
  const char* name;
  std::string (*note)();
};
constexpr Engine kEngines[] = {
    {"streams", [] { return std::string("workers of one process"); }}, {"mpi", mpi::note}, {"nccl", nccl::note}};
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
std::vector<std::string> device_names() {
  std::vector<std::string> out;
  for (const Kind& k : kKinds) out.emplace_back(k.name);
  return out;
}

AutomaticDevice automatic_device(const std::string& cache) {
  static const AutomaticDevice chosen = [&]() -> AutomaticDevice {
    cc::CompilerOptions compiler;
    compiler.cache = cache;
    try {
      cc::check_compiler(compiler);
    } catch (const cc::NoCompilerError& error) {
      if (!error.was_here) return {"interp", cc::brief(error)};
    } catch (const cc::WrongCompilerError& error) {
      return {"interp", cc::brief(error)};
    } catch (const BackendError& error) {
      throw BackendError(cc::brief(error) + "; mend that, or ask for the device `interp`, which needs no compiler.");
    }
    return {"cpu", ""};
  }();
  return chosen;
}

namespace {
bool is_for_gpu(int64_t operations) { return operations >= Gpu().least_work; }
}  // namespace

bool takes_gpu(int64_t operations) { return is_for_gpu(operations) && cuda::facts().count > 0; }
AutomaticGpu automatic_gpu(const ContextOptions& options, int64_t operations) {
  if (!is_for_gpu(operations)) return {};
  const cuda::Facts& found = cuda::facts();
  if (found.count == 0) return {nullptr, found.driver ? found.note : ""};
  try {
    return {make_cuda(options, 0, nullptr),
            fmt::format("a step has {:.3g} million operations", double(operations) / 1e6)};
  } catch (const BackendError& error) {
    return {nullptr, reason_of(error)};
  }
}

namespace {

// A device by its name: the kind, and a number where the name has one.
struct Named {
  std::string kind;
  std::optional<int> ordinal;
};
Named named(const std::string& name) {
  const size_t colon = name.find(':');
  Named out{name.substr(0, colon), std::nullopt};
  if (colon == std::string::npos) return out;
  const char *from = name.data() + colon + 1, *end = name.data() + name.size();
  int ordinal = 0;
  const auto [stop, error] = std::from_chars(from, end, ordinal);
  if (error != std::errc() || stop != end || ordinal < 0)
    throw ConfigError("`" + name + "` does not name a device: after the colon stands its number, as in `" + out.kind +
                      ":0`.");
  out.ordinal = ordinal;
  return out;
}

std::unique_ptr<backend::Device> make_one(const ContextOptions& options, ExchangeRef exchange) {
  const std::string name = options.device == "auto" ? automatic_device(options.cache).name : options.device;
  const Named device = named(name);
  const int ordinal = device.ordinal.value_or(0);
  for (const Kind& k : kKinds)
    if (device.kind == k.name) {
      if (k.make == make_cuda && k.count() == 0)
        throw ConfigError("the device `" + name + "` cannot be used: " + cuda::facts().note + ".");
      return ordinal < k.count() ? k.make(options, ordinal, std::move(exchange)) : (refuse_ordinal(name), nullptr);
    }
  refuse_kind(device.kind);
}

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

int number_from_mpirun(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : 0;
}
// How many processes of the mesh run on this machine, as mpirun says, and which of them this is.
int processes_here() { return std::max(1, number_from_mpirun("OMPI_COMM_WORLD_LOCAL_SIZE")); }
int this_process_here() { return number_from_mpirun("OMPI_COMM_WORLD_LOCAL_RANK"); }

// The name of the device that a worker has: as the mesh says; if it names only a kind, the GPUs take turns.
std::string name_of_worker(const ContextOptions& options, size_t worker) {
  const std::vector<std::string>& names = options.mesh.names;
  std::string name = names.empty() ? options.device : names[worker % names.size()];
  if (name == "cuda" && cuda::facts().count > 0) name += ":" + std::to_string(int(worker) % cuda::facts().count);
  return name;
}

// The devices of a mesh that belong to this process.
std::unique_ptr<backend::Device> make_mesh(const ContextOptions& options) {
  const Mesh& mesh = options.mesh;
  check(mesh);
  if (mesh.devices() > kMostDevices)
    throw ConfigError("a mesh of " + std::to_string(mesh.devices()) + " devices is more than " +
                      std::to_string(kMostDevices) + ".");
  const bool processes = has_processes(mesh);
  std::vector<std::string> names;
  for (size_t k = 0; k < (processes ? 1 : size_t(mesh.devices())); ++k)
    names.push_back(name_of_worker(options, processes ? size_t(this_process_here()) : k));
  ContextOptions one = options;
  const int threads = options.threads > 0 ? options.threads : processors().usable();
  one.threads = std::max<int>(
      1, processes ? options.threads > 0 ? threads : threads / processes_here() : threads / int(mesh.devices()));
  std::vector<std::shared_ptr<backend::Communicator>> communicators;
  if (mesh.engine == "nccl") {
    std::vector<int> ordinals;
    for (const std::string& name : names) {
      const Named device = named(name);
      if (device.kind != "cuda")
        throw ConfigError("the engine `nccl` is for GPUs; `" + name + "` is none. Use the device `cuda`.");
      ordinals.push_back(device.ordinal.value_or(0));
      if (std::count(ordinals.begin(), ordinals.end(), ordinals.back()) > 1)
        throw ConfigError("the engine `nccl` needs a GPU of its own for each device of the mesh; `" + name +
                          "` is there twice. The engine `streams` can share it.");
    }
    if (cuda::facts().count == 0) throw ConfigError("the engine `nccl` cannot be used: " + cuda::facts().note + ".");
    if (processes)
      communicators = {nccl::make_communicator(mpi::communicator(), ordinals[0], options.cache)};
    else
      communicators = nccl::make_communicators(ordinals, options.cache);
  } else if (processes) {
    communicators = {mpi::communicator()};
  } else {
    communicators = streams::make_communicators(int(mesh.devices()));
  }
  std::vector<backend::Worker> workers;
  for (size_t k = 0; k < communicators.size(); ++k) {
    one.device = names[k];
    auto exchange = std::make_shared<backend::Exchange>(std::move(communicators[k]), mesh);
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

}  // namespace

Target target_of(const ContextOptions& options, const std::string& device) {
  if (named(device).kind != "cuda") return host(options.threads);
  Gpu common;
  common.library_products = true;
  ContextOptions here = options;
  here.device = device;
  Target out = cuda::facts().count > 0 ? *make_one(here, nullptr)->target() : gpu_target(common);
  out.gpu.tf32 = options.tf32;
  return out;
}

std::unique_ptr<backend::Device> make_device(const ContextOptions& options) {
  return options.mesh.exchanges() ? make_mesh(options) : make_one(options, nullptr);
}

}  // namespace caravan
