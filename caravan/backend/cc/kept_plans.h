// Which compiled code a program has, kept in the cache beside the code.
#pragma once

#include <optional>
#include <string>

#include "caravan/backend/cc/compile.h"

namespace caravan::cc {

// What was compiled from the texts of an origin, whatever that is, and a note about it. So a program that was compiled
// before is found without its texts being made.
struct Kept {
  Compiled compiled;
  std::string note;
};
// Nothing if the cache has no such entry. The key of the entry has the compiler, its flags and the processor, too.
std::optional<Kept> find_kept(const std::string& origin, const CompilerOptions& options);
// Does nothing where the cache cannot be written, or does not have what was compiled.
void keep(const std::string& origin, const Compiled& compiled, const std::string& note, const CompilerOptions& options);

}  // namespace caravan::cc
