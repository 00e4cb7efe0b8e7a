#include "apps/c_compiler.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "caravan/backend/cc/find_compiler.h"

namespace caravan::app {

namespace fs = std::filesystem;

namespace {

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
  out.path = cc::path_of(options.compiler);
  if (!out.path.empty()) {
    const std::string said = output_of(options.compiler + " --version");
    out.version = said.substr(0, said.find('\n'));
  }
  std::string folder = fs::temp_directory_path() / "caravan.XXXXXX";
  if (!mkdtemp(folder.data())) {
    out.problem = "no temporary folder can be made";
    return out;
  }
  options.cache = folder;  // so that it is compiled now, not found
  out.problem = cc::compiler_problem(options);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return out;
}

}  // namespace caravan::app
