#include "caravan/backend/cc/allowed_vectors.h"

#include <algorithm>

#include "caravan/backend/cc/run_command.h"

namespace caravan::cc {

Target with_allowed_vectors(const Target& target, const CompilerOptions& options) {
  const bool any = std::any_of(options.flags.begin(), options.flags.end(), [](const std::string& flag) {
    return flag.starts_with("-m") && flag != "-march=native";
  });
  if (!any) return target;
  std::vector<std::string> command = {options.compiler};
  command.insert(command.end(), options.flags.begin(), options.flags.end());
  command.insert(command.end(), {"-dM", "-E", "-x", "c", "/dev/null"});
  const CommandResult macros = run_command(command);
  // Flags that the compiler refuses are reported when it compiles a program.
  if (!macros.succeeded() || macros.output.find("__x86_64__") == std::string::npos) return target;
  auto defined = [&](const char* name) {
    return macros.output.find(std::string(" ") + name + " ") != std::string::npos;
  };
  return with_at_most(target, {defined("__AVX__"), defined("__AVX512F__"), defined("__FMA__")});
}

}  // namespace caravan::cc
