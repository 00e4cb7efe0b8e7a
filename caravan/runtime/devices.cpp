#include "caravan/runtime/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "caravan/backend/cc/about_compiler.h"
#include "caravan/backend/cc/device.h"
#include "caravan/backend/cc/find_compiler.h"
#include "caravan/backend/cc/self_test.h"
#include "caravan/backend/cuda/device.h"
#include "caravan/backend/interp/device.h"
#include "caravan/backend/mesh_device.h"
#include "caravan/backend/mpi/mpi.h"
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
  device.compiler.cache = options.cache;
  device.compiler.flags.insert(device.compiler.flags.end(), options.compiler_flags.begin(),
                               options.compiler_flags.end());
  return cc::make_device(device);
}
std::unique_ptr<backend::Device> make_cuda(const ContextOptions& options, int ordinal, ExchangeRef exchange) {
  if (exchange) throw ConfigError("a mesh of GPUs is not built yet; use the device `cpu`, or one GPU.");
  return cuda::make_device({.seed = options.seed, .ordinal = ordinal, .cache = options.cache, .tf32 = options.tf32});
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
    out.push_back({k.name, true, k.count() > 0 && (k.make != make_cpu || compiler.works()), k.note(compiler)});
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

AutomaticGpu automatic_gpu(const ContextOptions& options, int64_t operations) {
  if (operations < Gpu().least_work) return {};
  const cuda::Facts& found = cuda::facts();
  if (found.count == 0) return {nullptr, found.driver ? found.note : ""};
  try {
    return {make_cuda(options, 0, nullptr),
            fmt::format("a step has {:.3g} million operations", double(operations) / 1e6)};
  } catch (const BackendError& error) {
    return {nullptr, reason_of(error)};
  }
}
std::string reason_of(const Error& error) {
  std::string out = error.what();
  if (out.ends_with('.')) out.pop_back();
  return out;
}

namespace {

std::unique_ptr<backend::Device> make_one(const ContextOptions& options, ExchangeRef exchange) {
  const std::string name = options.device == "auto" ? automatic_device(options.cache).name : options.device;
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  int ordinal = 0;
  if (colon != std::string::npos) {
    const char *from = name.data() + colon + 1, *end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(from, end, ordinal);
    if (error != std::errc() || stop != end || ordinal < 0)
      throw ConfigError("`" + name + "` does not name a device: after the colon stands its number, as in `" + kind +
                        ":0`.");
  }
  for (const Kind& k : kKinds)
    if (kind == k.name) {
      if (k.make == make_cuda && k.count() == 0)
        throw ConfigError("the device `" + name + "` cannot be used: " + cuda::facts().note + ".");
      return ordinal < k.count() ? k.make(options, ordinal, std::move(exchange)) : (refuse_ordinal(name), nullptr);
    }
  refuse_kind(kind);
}

// Does each device of the mesh have a process of its own?
bool uses_mpi(const Mesh& mesh) {
  const int processes = mpi::launch().processes;
  if (mesh.engine == "streams" || (mesh.engine == "auto" && processes == 1)) return false;
  if (mesh.engine != "auto" && mesh.engine != "mpi")
    throw ConfigError("`" + mesh.engine + "` is no engine of a mesh; there are: auto, streams, mpi.");
  if (processes == 1)
    throw ConfigError("the engine `mpi` is for processes that mpirun has started: mpirun -n " +
                      std::to_string(mesh.devices()) + " ...");
  if (mesh.devices() != processes)
    throw ConfigError("the mesh " + to_string(mesh) + " has " + std::to_string(mesh.devices()) +
                      " devices, but mpirun has started " + std::to_string(processes) + " processes.");
  return true;
}

// How many processes of the mesh run on this machine, as mpirun says.
int here() {
  const char* text = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  return std::max(1, text ? std::atoi(text) : 1);
}

// The devices of a mesh that belong to this process.
std::unique_ptr<backend::Device> make_mesh(const ContextOptions& options) {
  const Mesh& mesh = options.mesh;
  for (const MeshAxis& axis : mesh.axes)
    if (axis.size < 1 || axis.name.empty())
      throw ConfigError("an axis of a mesh has a name and at least one device; the mesh is " + to_string(mesh) + ".");
  if (mesh.devices() > kMostDevices)
    throw ConfigError("a mesh of " + std::to_string(mesh.devices()) + " devices is more than " +
                      std::to_string(kMostDevices) + ".");
  ContextOptions one = options;
  const int threads = options.threads > 0 ? options.threads : processors().usable();
  one.threads = std::max<int>(1, threads / int(mesh.devices()));
  std::vector<std::shared_ptr<backend::Communicator>> communicators;
  if (uses_mpi(mesh)) {
    communicators = {mpi::communicator()};
    one.threads = options.threads > 0 ? options.threads : std::max<int>(1, processors().usable() / here());
  } else {
    communicators = streams::make_communicators(int(mesh.devices()));
  }
  std::vector<backend::Worker> workers;
  for (auto& communicator : communicators) {
    auto exchange = std::make_shared<backend::Exchange>(std::move(communicator), mesh);
    workers.push_back({make_one(one, exchange), exchange});
    one.compiling = nullptr;  // the others find what the first has compiled
  }
  return backend::make_mesh_device(std::move(workers));
}

}  // namespace

std::unique_ptr<backend::Device> make_device(const ContextOptions& options) {
  return options.mesh.devices() == 1 ? make_one(options, nullptr) : make_mesh(options);
}

}  // namespace caravan
