// The interpreter as a device: it keeps states in double and runs programs without a plan.
#pragma once

#include "caravan/backend/backend.h"
#include "caravan/backend/exchange.h"

namespace caravan::interp {

// `exchange` runs the collectives of a device of a mesh.
std::unique_ptr<backend::Device> make_device(uint64_t seed, std::shared_ptr<backend::Exchange> exchange = nullptr);

}  // namespace caravan::interp
