// A fuzzer is one file: what it does with any bytes, and a few inputs to begin with. libFuzzer runs it in `./dev fuzz`;
// mutate.cpp runs it in the ordinary tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Nothing but a UserError may come of any bytes; what else is thrown ends the program, which is the finding.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

std::vector<std::string> seeds();  // what the library's own writers make

// A property that does not hold is a finding as well.
inline void must(bool holds) {
  if (!holds) __builtin_trap();
}

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
