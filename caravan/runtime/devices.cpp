#include "caravan/runtime/devices.h"

#include <fmt/format.h>

#include "caravan/backend/cc/about_compiler.h"
#include "caravan/backend/cc/device.h"
#include "caravan/backend/cc/find_compiler.h"
#include "caravan/backend/cc/self_test.h"
#include "caravan/backend/cuda/device.h"
#include "caravan/backend/interp/device.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/runtime/device_name.h"
#include "caravan/runtime/mesh_devices.h"

namespace caravan {

namespace {

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

std::unique_ptr<backend::Device> make_one(const ContextOptions& options, ExchangeRef exchange) {
  const std::string name = options.device == "auto" ? automatic_device(options.cache).name : options.device;
  const DeviceName device = parse_device_name(name);
  const int ordinal = device.ordinal.value_or(0);
  for (const Kind& k : kKinds)
    if (device.kind == k.name) {
      if (k.make == make_cuda && k.count() == 0)
        throw ConfigError("the device `" + name + "` cannot be used: " + cuda::facts().note + ".");
      return ordinal < k.count() ? k.make(options, ordinal, std::move(exchange)) : (refuse_ordinal(name), nullptr);
    }
  refuse_kind(device.kind);
}

}  // namespace

Target target_of(const ContextOptions& options, const std::string& device) {
  if (parse_device_name(device).kind != "cuda") return host(options.threads);
  Gpu common;
  common.library_products = true;
  ContextOptions here = options;
  here.device = device;
  Target out = cuda::facts().count > 0 ? *make_one(here, nullptr)->target() : gpu_target(common);
  out.gpu.tf32 = options.tf32;
  return out;
}

std::unique_ptr<backend::Device> make_device(const ContextOptions& options) {
  return options.mesh.exchanges() ? make_mesh(options, make_one) : make_one(options, nullptr);
}

}  // namespace caravan
