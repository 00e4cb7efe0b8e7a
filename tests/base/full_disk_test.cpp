// Where compiled code cannot be written for want of space: the right result, or one clear sentence, and nothing broken
// left behind. A limit on the size of files stands in for a full disk; root also fills a small one.
#include <caravan/caravan.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "programs.h"

namespace caravan {
namespace {

// In a process of its own: what `work` says, or "signal 9".
std::string said_by_child(const std::function<std::string()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  static const TemporaryFolder temporary;  // for the folders of these processes, which _exit leaves
  const pid_t child = fork();
  if (child == 0) {
    setenv("TMPDIR", temporary.path.c_str(), 1);
    std::string text;
    try {
      text = work();
    } catch (const BackendError& error) {
      text = std::string("BackendError: ") + error.what();
    } catch (const std::exception& error) {
      text = std::string("another error: ") + error.what();
    }
    if (write(ends[1], text.data(), text.size()) < 0) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  std::string out;
  for (char buffer[512]; const auto n = read(ends[0], buffer, sizeof buffer);) {
    if (n < 0) break;
    out.append(buffer, size_t(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? out : "signal " + std::to_string(WTERMSIG(status)) + out;
}

std::string result_on(const std::string& device, const std::string& cache) {
  Context ctx({.device = device, .cache = cache});
  return std::to_string(int(ctx.eval(sum(square(param("x", {1, 2, 3})))).item()));
}

// The right answer, or a sentence that says where it could not be written, and why.
bool is_clear(const std::string& said, const std::string& cache) {
  if (said == "14") return true;
  const bool why = said.find("No space left") != std::string::npos || said.find("File too large") != std::string::npos;
  return said.starts_with("BackendError: compiled code could not be written (is the disk full?): `" + cache + "`: ") &&
         why;
}

TEST(FullDisk, ALimitOnTheSizeOfFiles) {
  std::set<std::string> kinds;
  for (int64_t limit : {0, 1'000, 5'000, 40'000, 10'000'000}) {
    const TemporaryFolder folder;
    auto with_limit = [&](const char* device) {
      return said_by_child([&] {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit bound{rlim_t(limit), rlim_t(limit)};
        if (setrlimit(RLIMIT_FSIZE, &bound) != 0) return std::string("no limit");
        return result_on(device, folder);
      });
    };
    const std::string said = with_limit("cpu");
    EXPECT_TRUE(is_clear(said, folder)) << limit << ": " << said;
    kinds.insert(said.substr(0, 30));
    const std::string automatic = with_limit("auto");
    EXPECT_TRUE(is_clear(automatic, folder)) << limit << ": " << automatic;
    EXPECT_EQ(automatic == "14", said == "14")
        << limit << ": a full disk is not a missing compiler, so nothing is interpreted";
    EXPECT_EQ(said_by_child([&] { return result_on("cpu", folder); }), "14")
        << limit << ": what is left is no hindrance";
  }
  EXPECT_TRUE(kinds.count("14"));
  EXPECT_GE(kinds.size(), 2u) << "the limits are met in different places";
}

TEST(FullDisk, AFullFilesystem) {
  const TemporaryFolder folder, room;
  for (int kilobytes : {4, 24, 64, 4096}) {
    const std::string said = said_by_child([&]() -> std::string {
      if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
        return "no mount";
      const std::string size = "mode=700,size=" + std::to_string(kilobytes) + "k";
      if (mount("tmpfs", folder.path.c_str(), "tmpfs", 0, size.c_str()) != 0) return "no mount";
      setenv("TMPDIR", (kilobytes == 64 ? room : folder).path.c_str(), 1);
      return result_on(kilobytes == 24 ? "auto" : "cpu", folder);
    });
    if (said == "no mount") GTEST_SKIP() << "only root may mount a small filesystem";
    EXPECT_TRUE(is_clear(said, folder)) << kilobytes << " kB: " << said;
    if (kilobytes >= 64) {
      EXPECT_EQ(said, "14") << "there is room, in the cache or in the folder for temporary files";
    }
  }
}

}  // namespace
}  // namespace caravan
