// Whole files: read at once, and written so that a reader or a crash never meets half of one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace caravan::data {

std::string read_file(const std::string& path);  // ConfigError where it cannot be read

// Writes a new file beside it, `path`.RANDOM.part, flushes that to the disk, then renames it. ConfigError where the
// folder takes no file or something else than a file has the name, BackendError where the disk fails; either way `path`
// is as it was. A link stays, and the file that it leads to is replaced or made. Parts that killed processes left
// beside `path` are removed.
void write_file(const std::string& path, std::string_view content);

// Whether write_file would succeed now with so many bytes, before the work that makes them is done: throws what it
// would throw. The new file is made beside `path`, given its size where the file system can do that, and removed.
void try_file(const std::string& path, uint64_t bytes);

}  // namespace caravan::data
