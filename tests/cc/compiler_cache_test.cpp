// The C compiler behind the device: what comes from its cache and what is made again, and what its failures say.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "caravan/backend/cc/device.h"
#include "cc/answer.h"
#include "programs.h"
#include "refusal.h"

namespace caravan {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const std::string& folder, const std::string& extension) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == extension) out.push_back(entry.path());
  return out;
}

TEST(CompilerCache, TheSecondTimeComesFromTheCache) {
  const TemporaryFolder folder;
  const cc::Compiled first = cc::compile({kSource}, in_folder(folder)),
                     second = cc::compile({kSource}, in_folder(folder));
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(answer(first), 42);
  EXPECT_EQ(answer(second), 42);
  EXPECT_EQ(first.sources, second.sources);
  std::ifstream in(first.sources[0]);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), kSource);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), 3)
      << "an entry, its text, and a note of the compiler's version";
  EXPECT_FALSE(cc::compile({"int answer(void) { return 43; }\n"}, in_folder(folder)).from_cache) << "another text";
  cc::CompilerOptions other = in_folder(folder);
  other.flags.push_back("-O0");
  EXPECT_FALSE(cc::compile({kSource}, other).from_cache) << "other flags";
}
TEST(CompilerCache, TheFolderMayBeRelative) {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path);
  EXPECT_NO_THROW(EXPECT_EQ(answer(cc::compile({kSource}, in_folder("kernels"))), 42));
  EXPECT_NO_THROW(EXPECT_TRUE(cc::compile({kSource}, in_folder("kernels")).from_cache));
  fs::current_path(before);
  EXPECT_EQ(entries(folder.path + "/kernels", ".so").size(), 1u);
}
TEST(CompilerCache, ADamagedEntryIsMadeAgain) {
  struct Row {
    const char* name;
    std::function<void(const fs::path&)> damage;
  };
  const Row rows[] = {
      {"truncated", [](const fs::path& p) { fs::resize_file(p, fs::file_size(p) / 2); }},
      {"empty", [](const fs::path& p) { fs::resize_file(p, 0); }},
      {"overwritten",
       [](const fs::path& p) { std::fstream(p, std::ios::in | std::ios::out).seekp(1000).write("damage", 6); }},
      {"another file", [](const fs::path& p) { std::ofstream(p) << "not a shared object"; }},
      {"a folder", [](const fs::path& p) { fs::remove(p), fs::create_directory(p); }},
  };
  for (const Row& row : rows) {
    const TemporaryFolder folder;
    cc::compile({kSource}, in_folder(folder));
    row.damage(entries(folder, ".so").at(0));
    const cc::Compiled again = cc::compile({kSource}, in_folder(folder));
    EXPECT_FALSE(again.from_cache) << row.name;
    EXPECT_EQ(answer(again), 42) << row.name;
    const bool replaceable = std::string(row.name) != "a folder";
    EXPECT_EQ(cc::compile({kSource}, in_folder(folder)).from_cache, replaceable) << row.name;
  }
}
// In a process of its own: is what it says true?
bool in_child(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    bool right = false;
    try {
      right = work();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
    _exit(right ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
TEST(CompilerCache, AFolderThatCannotBeWrittenIsReadAndLeftAlone) {
  const TemporaryFolder folder, temporary;  // what the child makes goes with the latter
  fs::permissions(temporary.path, fs::perms::all);
  cc::compile({kSource}, in_folder(folder));
  const auto before = std::distance(fs::directory_iterator(folder.path), fs::directory_iterator());
  fs::permissions(folder.path, fs::perms(0555));
  EXPECT_TRUE(in_child([&] {
    setenv("TMPDIR", temporary.path.c_str(), 1);
    if (geteuid() == 0 && setuid(65534) != 0) return false;  // root may write everywhere
    const cc::Compiled old = cc::compile({kSource}, in_folder(folder)),
                       made = cc::compile({"int answer(void) { return 7; }\n"}, in_folder(folder)),
                       again = cc::compile({"int answer(void) { return 7; }\n"}, in_folder(folder));
    return old.from_cache && answer(old) == 42 && !made.from_cache && answer(made) == 7 && again.from_cache &&
           answer(again) == 7;
  }));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), before);
  fs::permissions(folder.path, fs::perms::owner_all);
  const std::string blocked = folder.path + "/file";
  std::ofstream(blocked) << "in the place of a folder";
  EXPECT_EQ(answer(cc::compile({kSource}, in_folder(blocked))), 42);
}
TEST(CompilerCache, TwoProcessesAtOnce) {
  const TemporaryFolder folder, other_cache;
  Context({.device = "cpu", .cache = other_cache.path}).eval(tensor({1}));  // a process tests its compiler once: now
  auto work = [&] {
    Context ctx = [&] {
      ContextOptions options;
      options.device = "cpu", options.cache = folder.path;
      return Context(options);
    }();
    return ctx.eval(sum(exp(param("x", {1, 2, 3})))).item();
  };
  const double expected = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  const pid_t other = fork();
  ASSERT_GE(other, 0);
  if (other == 0) _exit(in_child([&] { return std::abs(work() - expected) < 1e-4; }) ? 0 : 1);
  EXPECT_TRUE(in_child([&] { return std::abs(work() - expected) < 1e-4; }));
  int status = 0;
  EXPECT_EQ(waitpid(other, &status, 0), other);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(entries(folder, ".so").size(), 1u);
  EXPECT_EQ(entries(folder, ".c").size(), 1u);
  work();
}
TEST(CompilerErrors, OneMessageWithTheCommandTheLogAndTheSource) {
  const TemporaryFolder folder;
  cc::CompilerOptions options = in_folder(folder);
  expect_refusal<BackendError>([&] { cc::compile({"int broken(void) { return undeclared; }\n"}, options); },
                               {"the C compiler failed (status 1)", "command: cc -std=gnu99 -O3",
                                "source:  " + folder.path, "log: ", "undeclared", ".c"});
  EXPECT_TRUE(entries(folder, ".so").empty() && entries(folder, ".log").empty());
  EXPECT_EQ(entries(folder, ".c").size(), 1u) << "kept, to be looked at";
  options.compiler = "no-such-compiler";
  expect_refusal<BackendError>([&] { cc::compile({kSource}, options); },
                               {"there is no `no-such-compiler` on the PATH", "install one"});
  options.compiler = "false";
  expect_refusal<BackendError>([&] { cc::compile({kSource}, options); },
                               {"`false`", "cannot be run (`false --version`: status 1)"});

  cc::DeviceOptions device;
  device.compiler = options;
  auto cpu = cc::make_device(device);
  const Task task = task_of(assign(param("w", {1, 2}), tensor({3, 4})));
  expect_refusal<BackendError>([&] { backend::prepare(*cpu, task.program); }, {"`false`"});
  EXPECT_TRUE(cpu->names().empty()) << "nothing has changed";
}

}  // namespace
}  // namespace caravan
