// Whole files: read at once, and written so that a reader or a crash never meets half of one.
#pragma once

#include <string>
#include <string_view>

namespace caravan::data {

std::string read_file(const std::string& path);  // ConfigError where it cannot be read

// Writes beside it, flushes to the disk, then renames. ConfigError where the folder takes no file or something else
// than a file has the name, BackendError where the disk fails; either way `path` is as it was.
void write_file(const std::string& path, std::string_view content);

}  // namespace caravan::data
