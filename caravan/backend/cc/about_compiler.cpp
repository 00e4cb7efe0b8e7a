#include "caravan/backend/cc/about_compiler.h"

#include <cstdio>

#include "caravan/backend/cc/find_compiler.h"
#include "caravan/backend/cc/self_test.h"
#include "caravan/backend/refused_text.h"
#include "caravan/base/folders.h"
#include "caravan/base/list_text.h"
#include "caravan/base/scratch.h"

namespace caravan::cc {

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

CompilerFacts about_compiler() {
  CompilerOptions options;
  CompilerFacts out;
  out.path = path_of(options.compiler);
  if (!out.path.empty()) {
    const std::string said = output_of(options.compiler + " --version");
    out.version = said.substr(0, said.find('\n'));
  }
  try {
    const ScratchFolder folder(temporary_folder(), "caravan-");
    options.cache = folder.path();  // a new folder, so that the test is compiled now and not found in the cache
    out.problem = compiler_problem(options);
    if (!out.works()) return out;
    const SelfTest test = self_test(options);
    out.loops = test.loops, out.wrong = int(test.wrong.size());
    out.added = joined(test.added, " ");
  } catch (const BackendError& error) {
    out.problem = backend::brief(error);
  }
  return out;
}

std::string to_string(const CompilerFacts& c) {
  if (!c.works()) return c.problem;
  const std::string loops = std::to_string(c.loops);
  return "compiled by " + c.path + ", " + c.version + "; " +
         (c.wrong == 0 ? "its " + loops + " test loops are right"
                       : "called with " + c.added + ", without which " + std::to_string(c.wrong) + " of " + loops +
                             " test loops are wrong");
}

}  // namespace caravan::cc
