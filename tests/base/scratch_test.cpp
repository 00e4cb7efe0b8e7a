// Work in progress on disk, who may change a folder, and files that are replaced as a whole.
#include "caravan/base/scratch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "caravan/base/error.h"
#include "caravan/base/folders.h"
#include "caravan/data/atomic_file.h"
#include "contains.h"
#include "equal_pids.h"
#include "temporary_folder.h"

namespace caravan {
namespace {

namespace fs = std::filesystem;
using std::string;

std::set<string> names_in(const string& folder) {
  std::set<string> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.insert(entry.path().filename());
  return out;
}
void age(const string& path, time_t seconds) {
  const timespec then{time(nullptr) - seconds, 0}, both[] = {then, then};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), both, AT_SYMLINK_NOFOLLOW), 0) << path;
}
// What a process leaves that is killed while it does this.
void killed(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_TRUE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}
constexpr mode_t kMode = 07777;
mode_t mode_of(const string& path) {
  struct stat about {};
  return lstat(path.c_str(), &about) == 0 ? about.st_mode & kMode : 0;
}
string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// ---------------------------------------------------------------- scratch folders and files

TEST(Scratch, AFolderIsPrivateWhateverTheUmaskAndGoes) {
  const TemporaryFolder folder;
  const mode_t before = umask(0);
  string path;
  {
    const ScratchFolder scratch(folder.path, "build.");
    path = scratch.path();
    EXPECT_EQ(mode_of(path), 0700u);
    std::ofstream(path + "/file") << "something";
  }
  umask(before);
  EXPECT_TRUE(path.starts_with(folder.path + "/build.")) << path;
  EXPECT_FALSE(fs::exists(path));
  EXPECT_CONTAINS(message_of([] { ScratchFolder("/nowhere", "build."); }),
                  "no folder can be made in `/nowhere`: No such file");
}
TEST(Scratch, AChildOfForkLeavesTheFolderToItsParent) {
  const TemporaryFolder folder;
  auto scratch = std::make_unique<ScratchFolder>(folder.path, "build.");
  const pid_t child = fork();
  if (child == 0) {
    scratch.reset();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(fs::exists(scratch->path()));
  EXPECT_EQ(remove_abandoned_folders(folder.path, "build."), 0) << "it is in use";
}
TEST(Scratch, FoldersOfKilledProcessesAreRemovedAndNoOthers) {
  const TemporaryFolder folder;
  const string& in = folder.path;
  const ScratchFolder used(in, "build.");
  killed([&] {
    const auto* left = new ScratchFolder(in, "build.");
    std::ofstream(left->path() + "/half") << "half";
  });
  fs::create_directory(in + "/build.abcdef");  // whose lock is not there yet
  fs::create_directory(in + "/build.zyxwvu"), age(in + "/build.zyxwvu", 2 * 86'400);
  fs::create_directory(in + "/build.long-ago-but-of-another-name"),
      age(in + "/build.long-ago-but-of-another-name", 2 * 86'400);
  fs::create_directory(in + "/other.abcdef"), age(in + "/other.abcdef", 2 * 86'400);
  age(used.path(), 2 * 86'400);
  std::ofstream(in + "/build.aafile") << "a file", age(in + "/build.aafile", 2 * 86'400);
  EXPECT_EQ(names_in(in).size(), 7u);
  EXPECT_EQ(remove_abandoned_folders(in, "build."), 2);
  EXPECT_EQ(names_in(in), (std::set<string>{fs::path(used.path()).filename(), "build.abcdef",
                                            "build.long-ago-but-of-another-name", "other.abcdef", "build.aafile"}));
  EXPECT_EQ(remove_abandoned_folders(in, "build."), 0);
}
TEST(Scratch, FilesOfKilledProcessesAreRemovedWhenTheFileIsWrittenNext) {
  const TemporaryFolder folder;
  const string path = folder.path + "/model";
  killed([&] { new ScratchFile(make_scratch_file(path)); });
  killed([&] { new ScratchFile(make_scratch_file(path)); });
  const ScratchFile used = make_scratch_file(path);
  std::set<string> parts = names_in(folder.path);
  EXPECT_EQ(parts.size(), 3u);
  for (const string& part : parts) EXPECT_TRUE(part.starts_with("model.") && part.ends_with(".part")) << part;
  const string young = folder.path + "/" + *std::find_if(parts.begin(), parts.end(), [&](const string& p) {
                         return !used.path.ends_with(p);
                       });
  for (const string& part : parts)
    if (folder.path + "/" + part != young) age(folder.path + "/" + part, 120);
  const string mine = "model.mine.part", other = "other.0123456789abcdef.part";
  for (const string& name : {mine, other})
    std::ofstream(folder.path + "/" + name) << "", age(folder.path + "/" + name, 120);
  data::write_file(path, "content");
  EXPECT_EQ(names_in(folder.path),
            (std::set<string>{"model", fs::path(young).filename(), fs::path(used.path).filename(), mine, other}))
      << "one of this minute may be in the making, one is locked, and others are none of its business";
}
TEST(Scratch, NamesDiffer) {
  std::set<string> names;
  for (int i = 0; i < 1000; ++i) names.insert(random_name());
  EXPECT_EQ(names.size(), 1000u);
}

// ---------------------------------------------------------------- files that are replaced as a whole

TEST(WriteFile, LinksStayWhatTheyAre) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path + "/deep");
  struct Row {
    string link, to, file;
  };
  const Row rows[] = {
      {"to_file", "file", "file"},
      {"dangling", "new", "new"},
      {"twice", "to_deep", "deep/file"},
      {"to_deep", "deep/file", "deep/file"},
      {"absolute", folder.path + "/deep/other", "deep/other"},
  };
  for (const Row& row : rows) fs::create_symlink(row.to, folder.path + "/" + row.link);
  for (const Row& row : rows) {
    data::write_file(folder.path + "/" + row.link, row.link);
    EXPECT_EQ(fs::read_symlink(folder.path + "/" + row.link), row.to);
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder.path + "/" + row.file)));
    EXPECT_EQ(data::read_file(folder.path + "/" + row.file), row.link);
  }
  fs::create_symlink("b", folder.path + "/a"), fs::create_symlink("a", folder.path + "/b");
  EXPECT_CONTAINS(message_of([&] { data::write_file(folder.path + "/a", ""); }), "its links lead in a circle");
  fs::create_symlink("none/file", folder.path + "/nowhere");
  EXPECT_CONTAINS(message_of([&] { data::write_file(folder.path + "/nowhere", ""); }),
                  "cannot be written: No such file");
}
TEST(WriteFile, ALongNameHasRoomForItsPart) {
  const TemporaryFolder folder;
  const string name(255, 'n');
  data::write_file(folder.path + "/" + name, "content");
  EXPECT_EQ(names_in(folder.path), std::set<string>{name});
}
TEST(WriteFile, AnothersLinkInAFolderForAllIsNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  const TemporaryFolder folder;
  fs::permissions(folder.path, fs::perms(01777));
  data::write_file(folder.path + "/victim", "mine");
  const string link = folder.path + "/model";
  fs::create_symlink("victim", link);
  data::write_file(link, "mine too");
  ASSERT_EQ(lchown(link.c_str(), 65534, 65534), 0);
  EXPECT_CONTAINS(message_of([&] { data::write_file(link, "overwritten"); }),
                  "a link that another user has put into a folder which everybody may write");
  EXPECT_EQ(data::read_file(folder.path + "/victim"), "mine too");
  fs::permissions(folder.path, fs::perms(0755));  // in a folder of their own, people may have the links they want
  data::write_file(link, "mine again");
  EXPECT_EQ(data::read_file(folder.path + "/victim"), "mine again");
}
TEST(WriteFile, ProcessesWithTheSameNumberDoNotDisturbEachOther) {
  const TemporaryFolder folder;
  constexpr int kProcesses = 8;
  const string path = folder.path + "/model";
  const int good = succeed_with_equal_pids(kProcesses, [&](int p) {
    try {
      for (int i = 0; i < 20; ++i) data::write_file(path, string(200'000, char('a' + p)));
      return 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 1;
    }
  });
  if (good < 0) GTEST_SKIP() << "this system gives no namespaces of process numbers";
  EXPECT_EQ(good, kProcesses);
  const string content = data::read_file(path);
  EXPECT_EQ(content, string(200'000, content.at(0))) << "a mixture of two";
  EXPECT_EQ(names_in(folder.path), std::set<string>{"model"});
}

// ---------------------------------------------------------------- who may change a folder

TEST(Folders, OthersMustNotBeAbleToChangeOne) {
  const TemporaryFolder folder;
  const string inner = folder.path + "/way/inner";
  EXPECT_EQ(make_private_folder(inner), "");
  EXPECT_EQ(check_folder(inner).problem, "");
  EXPECT_EQ(check_folder(inner).path, fs::canonical(inner));
  fs::create_symlink("way/inner", folder.path + "/link");
  EXPECT_EQ(check_folder(folder.path + "/link").path, fs::canonical(inner));

  struct Row {
    string path;
    mode_t mode;
    string phrase;
  };
  const Row rows[] = {
      {inner, 0755, ""},
      {inner, 0555, ""},
      {inner, 0770, "can be written by others (mode 0770); `chmod 700 "},
      {inner, 0707, "can be written by others (mode 0707)"},
      {inner, 01777, "can be written by others (mode 1777)"},
      {folder.path + "/way", 0777, "/way`, which leads to it, can be written by others (mode 0777)"},
      {folder.path + "/way", 01777, ""},
  };
  for (const Row& row : rows) {
    ASSERT_EQ(chmod(row.path.c_str(), row.mode), 0);
    const string problem = check_folder(inner).problem;
    if (row.phrase.empty()) {
      EXPECT_EQ(problem, "");
    } else {
      EXPECT_CONTAINS(problem, row.phrase);
    }
    ASSERT_EQ(chmod(row.path.c_str(), 0700), 0);
  }
  EXPECT_CONTAINS(check_folder(folder.path + "/none").problem, "cannot be looked at: No such file");
  std::ofstream(folder.path + "/file") << "";
  EXPECT_CONTAINS(check_folder(folder.path + "/file").problem, "is not a folder");
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  ASSERT_EQ(chown(inner.c_str(), 65534, 65534), 0);
  EXPECT_CONTAINS(check_folder(inner).problem, "belongs to another user (number 65534)");
  ASSERT_EQ(chown(inner.c_str(), 0, 0), 0);
  ASSERT_EQ(chown((folder.path + "/way").c_str(), 65534, 65534), 0);
  EXPECT_CONTAINS(check_folder(inner).problem, "/way`, which leads to it, belongs to another user");
}
TEST(Folders, AreMadePrivateWhateverTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = umask(0);
  EXPECT_EQ(make_private_folder(folder.path + "/a/b"), "");
  umask(before);
  EXPECT_EQ(mode_of(folder.path + "/a"), 0700u);
  EXPECT_EQ(mode_of(folder.path + "/a/b"), 0700u);
  std::ofstream(folder.path + "/file") << "";
  EXPECT_EQ(make_private_folder(folder.path + "/file"), "Not a directory");
  EXPECT_EQ(make_private_folder(folder.path + "/file/deep"), "Not a directory");
}
TEST(Folders, OfTheUserComeFromAbsolutePathsAlone) {
  struct Row {
    const char *xdg, *home, *expected;
  };
  const Row rows[] = {
      {"/x", "/h", "/x/caravan"}, {"", "/h", "/h/.cache/caravan"}, {"x", "/h", "/h/.cache/caravan"}, {nullptr, ".", ""},
      {nullptr, "", ""},          {nullptr, nullptr, ""},
  };
  auto set = [](const char* name, const char* value) { value ? setenv(name, value, 1) : unsetenv(name); };
  for (const Row& row : rows) {
    const pid_t child = fork();
    if (child == 0) {
      set("XDG_CACHE_HOME", row.xdg), set("HOME", row.home);
      set("XDG_CONFIG_HOME", "/c");
      _exit(user_cache_folder() == row.expected && user_configuration_folder() == "/c/caravan" ? 0 : 1);
    }
    int status = 0;
    EXPECT_TRUE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0) << row.expected;
  }
}
TEST(Folders, TheTemporaryOneIsThere) {
  const char* set = getenv("TMPDIR");
  const string before = set ? set : "";
  const TemporaryFolder folder;
  setenv("TMPDIR", folder.path.c_str(), 1);
  EXPECT_EQ(temporary_folder(), folder.path);
  EXPECT_EQ(temporary_folder_problem(), "");
  setenv("TMPDIR", "/none", 1);
  EXPECT_EQ(temporary_folder(), "/tmp");
  EXPECT_EQ(temporary_folder_problem(), "TMPDIR is `/none`, which is not a folder");
  set ? setenv("TMPDIR", before.c_str(), 1) : unsetenv("TMPDIR");
}

}  // namespace
}  // namespace caravan
