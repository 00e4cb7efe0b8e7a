// Compilers that compile sums wrongly.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "caravan/backend/cc/compile.h"
#include "caravan/backend/cc/find_compiler.h"
#include "temporary_folder.h"

namespace caravan {

// A compiler that subtracts where a sum adds, unless it is called with a flag that it is right with ("" for never). It
// counts its calls, and several may run at once: the test of a compiler runs beside a first compilation.
class WrongCompiler {
 public:
  explicit WrongCompiler(const std::string& right_with) {
    std::ofstream(path()) << "#!/bin/sh\n"
                             "case \"$*\" in --version) echo \"wrong compiler\"; exit 0;; esac\n"
                             "echo called >>" +
                                 calls_path() +
                                 "\n"
                                 "right=" +
                                 right_with +
                                 "\n"
                                 "for word do\n"
                                 "  [ \"$word\" = \"$right\" ] && exec " +
                                 cc::path_of("cc") +
                                 " \"$@\"\n"
                                 "done\n"
                                 "for word do\n"
                                 "  shift\n"
                                 "  case \"$word\" in *.c)\n"
                                 "    wrong=" +
                                 folder_.path +
                                 "/wrong.$$.c\n"
                                 "    sed 's/^\\( *[a-z]*[0-9_]*\\) += /\\1 -= /' \"$word\" >$wrong\n"
                                 "    word=$wrong;;\n"
                                 "  esac\n"
                                 "  set -- \"$@\" \"$word\"\n"
                                 "done\n"
                                 "exec " +
                                 cc::path_of("cc") + " \"$@\"\n";
    chmod(path().c_str(), 0755);
  }
  std::string folder() const { return folder_.path + "/bin"; }
  std::string path() const {
    mkdir(folder().c_str(), 0755);
    return folder() + "/cc";
  }
  std::string cache() const { return folder_.path + "/cache"; }
  cc::CompilerOptions options() const {
    cc::CompilerOptions out;
    out.compiler = path();
    out.cache = cache();
    return out;
  }
  size_t calls() const {
    const std::string text = content_of(calls_path());
    return size_t(std::count(text.begin(), text.end(), '\n'));
  }

  // The command with this compiler as `cc`: what it prints.
  std::string caravan(const std::string& arguments) const {
    const std::string out = folder_.path + "/out";
    const std::string command = "PATH='" + folder() + ":'$PATH CARAVAN_CACHE='" + cache() + "' '" CARAVAN_COMMAND "' " +
                                arguments + " >'" + out + "' 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << command << "\n" << content_of(out);
    return content_of(out);
  }

 private:
  static std::string content_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  std::string calls_path() const { return folder_.path + "/calls"; }
  const TemporaryFolder folder_;
};

}  // namespace caravan
