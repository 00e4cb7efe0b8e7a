// A device that uses its compiler without the self-test. The self-test itself runs on it.
#pragma once

#include "caravan/backend/cc/device.h"

namespace caravan::cc {

std::unique_ptr<backend::Device> make_untested_device(const DeviceOptions& options);

}  // namespace caravan::cc
