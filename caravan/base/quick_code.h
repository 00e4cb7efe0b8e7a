// What is known of quickly compiled code that a program began on.
#pragma once

#include <cstdint>
#include <string>

namespace caravan {

// A program that takes long to compile may begin on code that was compiled quickly, and change over to better code when
// that is ready. Both compute the same bits.
struct QuickCode {
  bool used = false;      // the program began on such code
  bool changed = false;   // it has changed over to the better code
  double seconds = 0;     // from the beginning of the compilation until the better code was ready; 0: it is not yet
  int64_t steps = 0;      // that ran before the change
  std::string problem{};  // why the better code could not be compiled; empty: it could, or it is being compiled
};

}  // namespace caravan
