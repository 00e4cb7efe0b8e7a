// Devices by name: a kind, and perhaps an ordinal. `cpu` is `cpu:0`.
#pragma once

#include <memory>
#include <string>

#include "caravan/base/error.h"
#include "caravan/runtime/context.h"

namespace caravan {

namespace cc {
struct CompilerFacts;
struct DeviceOptions;
}  // namespace cc

// A kind of device that is built in, whether it can be used here or not: a row of the table of devices.
struct DeviceKind {
  const char* name;
  bool is_gpu;
  bool compiles_c;            // programs become C, which the system's compiler compiles
  int (*count)();             // of devices here that can be used, numbered from 0
  std::string (*why_none)();  // if there are none: a line without a full stop
};
const DeviceKind* find_device_kind(const std::string& device);  // of `cuda:1` or `cuda`; null: not built in
const DeviceKind& device_kind(const std::string& device);       // ConfigError: not built in
const DeviceKind& gpu_kind();                                   // what `auto` takes
std::vector<std::string> device_names();                        // of the kinds

// What was found of each kind.
struct FoundDevice {
  std::string name;
  bool works = false;  // here
  std::string note;    // what it is, or why not
};
std::vector<FoundDevice> found_devices(const cc::CompilerFacts& compiler);

// The device that the options name, which is not `auto`. ConfigError: a kind that is not built in, an ordinal that is
// not there.
std::unique_ptr<backend::Device> make_device(const ContextOptions& options);
// ConfigError: what make_device refuses before the processes of a mesh have met. The device may be `auto`.
void check_device(const ContextOptions& options);

// What the options say to the device `cpu`.
cc::DeviceOptions cpu_options(const ContextOptions& options);

// The machine for which a device has its plans, or for which those of the interpreter are shown. It need not be here:
// for a GPU that is not, it is an H200 with its library of products.
Target target_of(const ContextOptions& options, const std::string& device);

}  // namespace caravan
