// Memory of states and of the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace caravan::cc {

struct FreeMemory {
  enum class From : uint8_t { heap, system, caller } from = From::heap;
  size_t bytes = 0;
  void operator()(std::byte* memory) const;
};
using Memory = std::unique_ptr<std::byte[], FreeMemory>;

// Memory that is all zero, aligned to a cache line. A large block comes from the system, whose pages are zero and begin
// to exist when they are first touched; they are huge where the system allows that. Throws std::bad_alloc.
Memory allocate(int64_t bytes);

Memory borrowed(void* memory);  // of the caller, who frees it

}  // namespace caravan::cc
