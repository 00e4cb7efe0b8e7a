// A device whose compiler is taken as it is: what the self-test runs on, and what every device is behind that test.
#pragma once

#include "caravan/backend/cc/device.h"

namespace caravan::cc {

std::unique_ptr<backend::Device> make_untested_device(const DeviceOptions& options);

}  // namespace caravan::cc
