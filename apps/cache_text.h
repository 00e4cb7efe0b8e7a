// What `caravan cache` and `caravan doctor` say of the folder of compiled kernels.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "caravan/backend/kernel_cache.h"

namespace caravan::app {

std::string cache_text(const backend::KernelCache& cache);  // "12 kernels, 3.4 MB of at most 1000 MB, in /folder"
std::string cache_problem_text(const backend::KernelCache& cache);  // "not used, because ..."; empty: it is used
nlohmann::ordered_json cache_json(const backend::KernelCache& cache);

}  // namespace caravan::app
