#include "caravan/runtime/devices.h"

#include "caravan/backend/cc/about_compiler.h"
#include "caravan/backend/cc/device.h"
#include "caravan/backend/cuda/device.h"
#include "caravan/backend/interp/device.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/runtime/device_name.h"
#include "caravan/runtime/mesh_devices.h"

namespace caravan {

cc::DeviceOptions cpu_options(const ContextOptions& options) {
  cc::DeviceOptions out;
  out.seed = options.seed;
  out.threads = options.threads;
  out.quick_start = options.quick_start;
  out.compiler.cache = options.cache;
  out.compiler.progress = options.compiling;
  out.compiler.flags.insert(out.compiler.flags.end(), options.compiler_flags.begin(), options.compiler_flags.end());
  return out;
}

namespace {

std::unique_ptr<backend::Device> make_cpu(const ContextOptions& options, int, ExchangeRef exchange) {
  cc::DeviceOptions device = cpu_options(options);
  device.exchange = std::move(exchange);
  return cc::make_device(device);
}
Target cpu_target(const ContextOptions& options, int) { return cc::target_of(cpu_options(options)); }

std::unique_ptr<backend::Device> make_cuda(const ContextOptions& options, int ordinal, ExchangeRef exchange) {
  return cuda::make_device({.seed = options.seed,
                            .ordinal = ordinal,
                            .cache = options.cache,
                            .tf32 = options.tf32,
                            .exchange = std::move(exchange),
                            .compiling = options.compiling});
}
Target cuda_target(const ContextOptions& options, int ordinal) {
  if (ordinal < cuda::facts().count) return *make_cuda(options, ordinal, nullptr)->target();
  Gpu common;
  common.library_products = true;
  common.tf32 = options.tf32;
  return gpu_target(common);
}

std::unique_ptr<backend::Device> make_interp(const ContextOptions& options, int, ExchangeRef exchange) {
  return interp::make_device(options.seed, std::move(exchange));
}

// The one table of devices.
struct Kind {
  DeviceKind facts;
  bool (*works)(const cc::CompilerFacts&);
  std::string (*note)(const cc::CompilerFacts&);
  std::unique_ptr<backend::Device> (*make)(const ContextOptions&, int ordinal, ExchangeRef exchange);
  Target (*target)(const ContextOptions&, int ordinal);  // that plans are shown for; the device need not be here
};
constexpr Kind kKinds[] = {
    // However many cores it has, a machine is one device that runs a step on all of them.
    {{.name = "cpu",
      .is_gpu = false,
      .compiles_c = true,
      .count = [] { return 1; },
      .why_none = [] { return std::string(); }},
     [](const cc::CompilerFacts& compiler) { return compiler.works(); },
     [](const cc::CompilerFacts& compiler) { return cc::to_string(compiler); },
     make_cpu,
     cpu_target},
    // It runs programs without a plan.
    {{.name = "interp",
      .is_gpu = false,
      .compiles_c = false,
      .count = [] { return 1; },
      .why_none = [] { return std::string(); }},
     [](const cc::CompilerFacts&) { return true; },
     [](const cc::CompilerFacts&) { return std::string("the interpreter, in double precision, one thread"); },
     make_interp,
     cpu_target},
    {{.name = "cuda",
      .is_gpu = true,
      .compiles_c = false,
      .count = [] { return cuda::facts().count; },
      .why_none = [] { return cuda::facts().note; }},
     [](const cc::CompilerFacts&) { return cuda::facts().count > 0; },
     [](const cc::CompilerFacts&) {
       const cuda::Facts& facts = cuda::facts();
       return facts.count > 0 ? facts.note + ", " + cuda::library_note() : facts.note;
     },
     make_cuda,
     cuda_target},
};

[[noreturn]] void refuse_kind(const std::string& kind) {
  throw ConfigError("device kind `" + kind + "` is not built into this library; it has: " + joined(device_names()) +
                    ".");
}
[[noreturn]] void refuse_ordinal(const std::string& device) {
  std::vector<std::string> there;
  for (const Kind& k : kKinds)
    for (int n = 0; n < k.facts.count(); ++n) there.push_back(std::string(k.facts.name) + ":" + std::to_string(n));
  throw ConfigError("there is no `" + device + "`; this machine has " + joined(there) + ".");
}

const Kind* find_kind(const std::string& name) {
  for (const Kind& k : kKinds)
    if (name == k.facts.name) return &k;
  return nullptr;
}
const Kind& kind_of(const DeviceName& device) {
  if (const Kind* found = find_kind(device.kind)) return *found;
  refuse_kind(device.kind);
}

}  // namespace

const DeviceKind* find_device_kind(const std::string& device) {
  const Kind* found = find_kind(device.substr(0, device.find(':')));
  return found ? &found->facts : nullptr;
}
const DeviceKind& device_kind(const std::string& device) { return kind_of(parse_device_name(device)).facts; }
const DeviceKind& gpu_kind() { return device_kind("cuda"); }
std::vector<FoundDevice> found_devices(const cc::CompilerFacts& compiler) {
  std::vector<FoundDevice> out;
  for (const Kind& k : kKinds) out.push_back({k.facts.name, k.works(compiler), k.note(compiler)});
  return out;
}
std::vector<std::string> device_names() {
  std::vector<std::string> out;
  for (const Kind& k : kKinds) out.emplace_back(k.facts.name);
  return out;
}

namespace {

void check_one(const std::string& name) {
  const DeviceName device = parse_device_name(name);
  const DeviceKind& kind = kind_of(device).facts;
  if (kind.count() == 0) throw ConfigError("the device `" + name + "` cannot be used: " + kind.why_none() + ".");
  if (device.ordinal.value_or(0) >= kind.count()) refuse_ordinal(name);
}

std::unique_ptr<backend::Device> make_one(const ContextOptions& options, ExchangeRef exchange) {
  check_one(options.device);
  const DeviceName device = parse_device_name(options.device);
  return kind_of(device).make(options, device.ordinal.value_or(0), std::move(exchange));
}

}  // namespace

Target target_of(const ContextOptions& options, const std::string& device) {
  const DeviceName name = parse_device_name(device);
  return kind_of(name).target(options, name.ordinal.value_or(0));
}

void check_device(const ContextOptions& options) {
  ContextOptions named = options;
  if (options.device == "auto") named.device = "cpu";  // on a mesh it is never a GPU
  if (!options.mesh.exchanges()) return check_one(named.device);
  for (const std::string& name : devices_of_process(named)) check_one(name);
}
std::unique_ptr<backend::Device> make_device(const ContextOptions& options) {
  return options.mesh.exchanges() ? make_mesh(options, make_one) : make_one(options, nullptr);
}

}  // namespace caravan
