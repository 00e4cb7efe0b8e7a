// The interpreter as a device: state in double, programs executed as they are.
#pragma once

#include "caravan/backend/backend.h"

namespace caravan::interp {

std::unique_ptr<backend::Device> make_device(uint64_t seed);

}  // namespace caravan::interp
