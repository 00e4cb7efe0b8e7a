// Devices by name: a kind, and perhaps an ordinal. `cpu` is `cpu:0`.
#pragma once

#include <memory>
#include <string>

#include "caravan/runtime/context.h"

namespace caravan {

// The device that the options name. ConfigError: a kind that is not built in, an ordinal that is not there.
std::unique_ptr<backend::Device> make_device(const ContextOptions& options);

// What `auto` stands for: `cpu` where the C compiler works, else `interp`. Asked once a process.
struct AutomaticDevice {
  std::string name;
  std::string why_interpreted;  // one line without a full stop; empty: it is not
};
const AutomaticDevice& automatic_device(const std::string& cache = "");

}  // namespace caravan
