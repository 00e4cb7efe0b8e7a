#include "caravan/backend/cc/find_compiler.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "caravan/backend/cc/self_test.h"
#include "caravan/backend/refused_text.h"
#include "caravan/base/error.h"

namespace caravan::cc {

std::string path_of(const std::string& program) {
  auto runs = [](const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != std::string::npos) return runs(program) ? program : "";
  const char* set = std::getenv("PATH");
  std::istringstream folders(set ? set : "/bin:/usr/bin");  // the path that exec searches if PATH is not set
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const auto path = std::filesystem::path(folder) / program; runs(path)) return path;
  return "";
}

void check_compiler(const CompilerOptions& options) {
  if (const SelfTest test = self_test(options); !test.passed) refuse(test, options);
}

std::string compiler_problem(const CompilerOptions& options) {
  try {
    check_compiler(options);
  } catch (const BackendError& error) {
    return backend::brief(error);
  }
  return "";
}

}  // namespace caravan::cc
