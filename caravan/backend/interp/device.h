// The interpreter as a device: it keeps states in double and runs programs without a plan.
#pragma once

#include "caravan/backend/backend.h"

namespace caravan::interp {

std::unique_ptr<backend::Device> make_device(uint64_t seed);

}  // namespace caravan::interp
