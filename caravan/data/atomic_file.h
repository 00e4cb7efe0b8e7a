// Whole files: read at once, and written so that a reader or a crash never meets half of one.
#pragma once

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "caravan/base/memory_error.h"

namespace caravan::data {

[[noreturn]] void no_memory_for_file(const std::string& path);
// What `read` gives. Where the memory does not suffice, a MemoryError that names the file and its size.
template <class Read>
auto naming_memory(const std::string& path, const Read& read) -> decltype(read()) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    no_memory_for_file(path);
  } catch (const MemoryError&) {
    no_memory_for_file(path);
  } catch (const std::length_error&) {  // more than a string can have
    no_memory_for_file(path);
  }
}

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
