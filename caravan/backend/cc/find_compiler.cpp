#include "caravan/backend/cc/find_compiler.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "caravan/base/error.h"

namespace caravan::cc {

namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The first line of what went wrong, without its full stop, and of what the compiler said about it.
std::string brief(const std::string& message) {
  std::string out = first_line(message);
  if (out.ends_with('.')) out.pop_back();
  const std::string log = "log:     ";
  if (const size_t at = message.find(log); at != std::string::npos)
    out += ": " + first_line(message.substr(at + log.size()));
  return out;
}

}  // namespace

std::string path_of(const std::string& program) {
  const char* set = std::getenv("PATH");
  std::istringstream folders(set ? set : "/bin:/usr/bin");  // what exec searches without one
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const auto path = std::filesystem::path(folder) / program; access(path.c_str(), X_OK) == 0) return path;
  return "";
}

std::string compiler_problem(const CompilerOptions& options) {
  if (path_of(options.compiler).empty())
    return "there is no `" + options.compiler + "` on the PATH; install one (apt-get install gcc)";
  try {
    compile({"int caravan_works(void) { return 1; }\n"}, options).library->symbol("caravan_works");
  } catch (const BackendError& error) {
    return brief(error.what());
  }
  return "";
}

}  // namespace caravan::cc
