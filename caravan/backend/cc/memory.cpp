#include "caravan/backend/cc/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "caravan/target/target.h"

namespace caravan::cc {

namespace {

// Whole huge pages from the system, of which only those that are touched take up memory.
std::byte* from_system(size_t bytes) {
  void* mapped = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* first = static_cast<std::byte*>(mapped);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(first) % kHugePage) % kHugePage;
  if (before > 0) munmap(first, before);
  munmap(first + before + bytes, kHugePage - before);
  madvise(first + before, bytes, MADV_HUGEPAGE);  // only a request
  return first + before;
}

}  // namespace

void FreeMemory::operator()(std::byte* memory) const {
  if (from == From::heap) ::operator delete[](memory, std::align_val_t(kCacheLine));
  if (from == From::system) munmap(memory, bytes);
}

Memory allocate(int64_t bytes) {
  const auto n = size_t(std::max<int64_t>(bytes, 1));
  if (n >= kHugePage) {
    const size_t whole = (n + kHugePage - 1) / kHugePage * kHugePage;
    return Memory(from_system(whole), {FreeMemory::From::system, whole});
  }
  Memory out(static_cast<std::byte*>(::operator new[](n, std::align_val_t(kCacheLine))));
  std::memset(out.get(), 0, n);
  return out;
}

Memory borrowed(void* memory) { return Memory(static_cast<std::byte*>(memory), {FreeMemory::From::caller, 0}); }

}  // namespace caravan::cc
