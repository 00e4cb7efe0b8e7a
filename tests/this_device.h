// The device that this run of a test is for: ctest runs the tests that include this once on each.
#pragma once

#include <caravan/caravan.h>

#include <cstdlib>

namespace caravan {

inline ContextOptions here(uint64_t seed = 0) {
  const char* set = std::getenv("CARAVAN_TEST_DEVICE");
  ContextOptions out;
  out.seed = seed;
  if (set && *set) out.device = set;
  out.compiler_flags = {"-O0"};  // the bits are the same; what -O3 makes of programs is cpu_test's
  return out;
}
inline const ContextOptions kHere = here();

}  // namespace caravan
