#include "apps/c_compiler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "caravan/backend/cc/compile.h"
#include "caravan/base/error.h"

namespace caravan::app {

namespace fs = std::filesystem;

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

std::string path_of(const std::string& program) {
  const char* set = std::getenv("PATH");
  std::istringstream folders(set ? set : "/bin:/usr/bin");  // what exec searches without one
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const fs::path path = fs::path(folder) / program; access(path.c_str(), X_OK) == 0) return path;
  return "";
}

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return out;
  for (char buffer[256]; std::fgets(buffer, sizeof buffer, pipe);) out += buffer;
  pclose(pipe);
  return out;
}

}  // namespace

CCompiler find_c_compiler() {
  cc::CompilerOptions options;
  CCompiler out;
  out.path = path_of(options.compiler);
  if (out.path.empty()) {
    out.problem = fmt::format("there is no `{}` on the PATH; install one (apt-get install gcc)", options.compiler);
    return out;
  }
  out.version = first_line(output_of(options.compiler + " --version"));

  std::string folder = fs::temp_directory_path() / "caravan.XXXXXX";
  if (!mkdtemp(folder.data())) {
    out.problem = "no temporary folder can be made";
    return out;
  }
  options.cache = folder;
  try {
    cc::compile({"int caravan_works(void) { return 1; }\n"}, options).library->symbol("caravan_works");
  } catch (const BackendError& error) {
    out.problem = brief(error.what());
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return out;
}

}  // namespace caravan::app
