// The processor as a device: programs become C, C becomes machine code, and states are kept in memory in their own
// precision.
#pragma once

#include "caravan/backend/backend.h"
#include "caravan/backend/cc/compile.h"
#include "caravan/backend/cc/quick_start.h"
#include "caravan/backend/exchange.h"
#include "caravan/target/compile_times.h"

namespace caravan::cc {

struct DeviceOptions {
  uint64_t seed = 0;
  int threads = 0;  // most threads that a run may use; 0: one for each usable processor (base/processors.h)
  CompilerOptions compiler;
  std::shared_ptr<backend::Exchange> exchange{};  // for collectives, if the device is one of a mesh
  // Whether a program that takes long to compile begins on quickly compiled code (quick_start.h), and how long that is.
  bool quick_start = false;
  double long_compilation = kLongCompilation;  // seconds, by an estimate
  std::optional<Tuning> tuning{};  // how loops are cut; none: as the tuning file says (target/tuning_file.h)
};
std::unique_ptr<backend::Device> make_device(const DeviceOptions& options);
Target target_of(const DeviceOptions& options);  // the machine for which such a device has its plans

}  // namespace caravan::cc
