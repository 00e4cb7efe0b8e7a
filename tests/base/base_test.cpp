// What every layer stands on: files that must be regular ones, text of others that is to be shown, hashes, lists.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "caravan/base/error.h"
#include "caravan/base/hash.h"
#include "caravan/base/list_text.h"
#include "caravan/base/printable.h"
#include "caravan/base/processors.h"
#include "caravan/base/regular_file.h"
#include "temporary_folder.h"

namespace caravan {
namespace {

using std::string;
using Links = RegularFile::Links;

TEST(Hash, OfBytesIsThatOfThePaper) {  // random streams and files on disk depend on these
  EXPECT_EQ(hash_bytes(""), 0xcbf29ce484222325);
  EXPECT_EQ(hash_bytes("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(hash_bytes("foobar"), 0x85944171f73967e8);
}

TEST(Hash, OfWordsBringsHighBitsDown) {
  auto low_bits = [](uint64_t word) {
    WordHash hash;
    hash.add(word);
    return hash.value() % 1024;
  };
  EXPECT_NE(low_bits(uint64_t(1) << 33), low_bits(uint64_t(1) << 34));
}

TEST(ListText, HasASeparatorBetweenItems) {
  EXPECT_EQ(joined(std::vector<string>{}), "");
  EXPECT_EQ(joined(std::vector<string>{"a", "", "c"}), "a, , c");
  EXPECT_EQ(joined(std::vector{1, 2}, " and ", [](int i) { return std::to_string(i); }), "1 and 2");
  string list;
  for (const char* item : {"a", "b"}) add_to_list(list, item, "; ");
  EXPECT_EQ(list, "a; b");
}

TEST(RegularFile, IsReadWhole) {
  const TemporaryFolder folder;
  for (const size_t size : {0, 1, 4096, 100'000}) {
    const string path = folder.path + "/file", content(size, 'x');
    std::ofstream(path) << content;
    RegularFile file(path);
    ASSERT_TRUE(file.ok()) << file.problem();
    EXPECT_EQ(size_t(file.status().st_size), size);
    string read;
    EXPECT_TRUE(file.read_rest(read));
    EXPECT_EQ(read, content);
  }
  RegularFile kernel("/proc/self/status");  // its status says 0 bytes
  string read;
  ASSERT_TRUE(kernel.ok() && kernel.read_rest(read));
  EXPECT_NE(read.find("Name:"), string::npos);
}

// Each within the moment that a test takes: a FIFO that was opened in the usual way would wait for a writer.
TEST(RegularFile, NothingElseIsOpened) {
  const TemporaryFolder folder;
  const string at = folder.path + "/";
  ASSERT_EQ(mkfifo((at + "fifo").c_str(), 0600), 0);
  std::ofstream(at + "file") << "content";
  ASSERT_EQ(symlink("file", (at + "link").c_str()), 0);
  ASSERT_EQ(symlink("fifo", (at + "to-fifo").c_str()), 0);
  const int listening = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  ASSERT_LT((at + "socket").size(), sizeof name.sun_path);
  (at + "socket").copy(name.sun_path, sizeof name.sun_path - 1);
  ASSERT_EQ(bind(listening, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  const std::pair<string, string> rows[] = {{at + "fifo", "it is a FIFO, not a regular file"},
                                            {at + "to-fifo", "it is a FIFO, not a regular file"},
                                            {at, "it is a folder, not a regular file"},
                                            {at + "socket", "it is a socket, not a regular file"},
                                            {"/dev/zero", "it is a device, not a regular file"},
                                            {at + "none", "No such file or directory"},
                                            {at + "file/below", "Not a directory"},
                                            {at + string(300, 'a'), "File name too long"}};
  for (const auto& [path, problem] : rows) {
    const RegularFile file(path);
    EXPECT_FALSE(file.ok()) << path;
    EXPECT_EQ(file.problem(), problem) << path;
  }
  close(listening);
  EXPECT_TRUE(RegularFile(at + "link").ok());
  EXPECT_EQ(RegularFile(at + "link", Links::refused).problem(), "it is a link, not a regular file");
}

TEST(Printable, WhatATerminalWouldObeyIsSpelledOut) {
  const std::pair<string, string> rows[] = {
      {"layer.0.weight", "layer.0.weight"},
      {"", ""},
      {"größe 重み 🐪", "größe 重み 🐪"},
      {"w\x1b]0;title\x07", "w\\x1b]0;title\\x07"},
      {"a\nb\rc\td\x7f",
       "a\\x0a"
       "b\\x0dc\\x09"
       "d\\x7f"},
      {string("a\0b", 3),
       "a\\x00"
       "b"},
      {"\xc2\x9b"
       "31m",
       "\\u009b31m"},                                // CSI in one character
      {"\xff\xc3", "\\xff\\xc3"},                    // no UTF-8, and half a character
      {"\xc0\x9b", "\\xc0\\x9b"},                    // ESC spelled longer than it is
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // half of a pair of UTF-16
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // beyond Unicode
      {"a\u202e"
       "b\u2066"
       "c\u200f",
       "a\\u202eb\\u2066c\\u200f"},  // written backwards
      {"\ufeff\u2028\u200b", "\\ufeff\\u2028\\u200b"},
      {"\u010a", "\u010a"},  // a letter whose low byte is a line end
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(printable(text), expected);
  EXPECT_EQ(printable_lines("a\n\tb\x1b[2J\r\n\xff"), "a\n\tb\\x1b[2J\\x0d\n\\xff");
}

TEST(Printable, IsBoundedAndCutsNoCharacter) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef..");
  EXPECT_EQ(printable("aaa重み", 5), "aaa..");
  EXPECT_EQ(printable("aaa\x1b", 5), "aaa..");
  EXPECT_EQ(printable(string(1'000'000, '\x1b')).size(), 202u);
  EXPECT_EQ(printable_lines(string(100'000, 'x')).size(), 100'000u);
}

TEST(Printable, PiecesShowACharacterWhenItIsWhole) {
  PrintableStream stream;
  EXPECT_EQ(stream.add("a\xf0\x9f"), "a");
  EXPECT_EQ(stream.add("\x98"), "");
  EXPECT_EQ(stream.add("\x80z\xc3"), "\U0001f600z");
  EXPECT_EQ(stream.add("b\xe2\x82"), "\\xc3b");
  EXPECT_EQ(stream.end(), "\\xe2\\x82");
  EXPECT_EQ(stream.end(), "");

  uint64_t random = 1;
  const string bytes = "a\n\x80\xbf\xc3\xa9\xe0\x9f\xed\xa0\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xf5\xff";
  for (int round = 0; round < 2000; ++round) {
    string text, shown;
    for (int i = 0; i < 12; ++i) text += bytes[((random = random * 6364136223846793005 + 1) >> 33) % bytes.size()];
    for (size_t at = 0; at < text.size(); at += 1 + size_t(round) % 3)
      shown += stream.add(text.substr(at, 1 + size_t(round) % 3));
    ASSERT_EQ(shown + stream.end(), printable_lines(text));
  }
}

// --- processors ---

struct GroupFile {
  string path, content;
};
struct Container {
  const char* what;
  std::vector<GroupFile> files;
  std::optional<double> quota;
};
const char* const kMounted2 = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
const char* const kMounted1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
const Container kContainers[] = {
    {"no control groups", {}, {}},
    {"version 2, no limit",
     {{"/proc/self/mountinfo", kMounted2}, {"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "max 100000\n"}},
     {}},
    {"version 2, its own name space",
     {{"/proc/self/mountinfo", kMounted2},
      {"/proc/self/cgroup", "0::/\n"},
      {"/sys/fs/cgroup/cpu.max", "250000 100000\n"}},
     2.5},
    {"version 2, the limit of a group above",
     {{"/proc/self/mountinfo", kMounted2},
      {"/proc/self/cgroup", "0::/batch/job/step\n"},
      {"/sys/fs/cgroup/batch/cpu.max", "300000 100000\n"},
      {"/sys/fs/cgroup/batch/job/cpu.max", "400000 100000\n"},
      {"/sys/fs/cgroup/batch/job/step/cpu.max", "max 100000\n"}},
     3.0},
    {"version 1",
     {{"/proc/self/mountinfo", kMounted1},
      {"/proc/self/cgroup", "4:memory:/other\n3:cpu,cpuacct:/a\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"}},
     0.5},
    {"version 1, no limit",
     {{"/proc/self/mountinfo", kMounted1},
      {"/proc/self/cgroup", "3:cpu,cpuacct:/a\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"}},
     {}},
    {"version 1, a container that is told its place outside",
     {{"/proc/self/mountinfo", "32 31 0:29 /docker/x /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"},
      {"/proc/self/cgroup", "3:cpu:/docker/x\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
     2.0},
};
TEST(Processors, AContainersShareOfTime) {
  for (const Container& c : kContainers) {
    const TemporaryFolder folder;
    for (const GroupFile& file : c.files) {
      const string path = folder.path + file.path;
      std::filesystem::create_directories(std::filesystem::path(path).parent_path());
      std::ofstream(path) << file.content;
    }
    EXPECT_EQ(processors(folder.path).quota, c.quota) << c.what;
  }
}
TEST(Processors, APartOfOneCountsAsNoneButThereIsAlwaysOne) {
  auto usable = [](int allowed, std::optional<double> quota) { return Processors{16, allowed, quota}.usable(); };
  EXPECT_EQ(usable(16, {}), 16);
  EXPECT_EQ(usable(4, {}), 4);
  EXPECT_EQ(usable(4, 8.0), 4);
  EXPECT_EQ(usable(4, 2.5), 2);
  EXPECT_EQ(usable(4, 0.25), 1);
}
TEST(Processors, ProcessesShareThoseOfTheirParent) {
  auto usable = [](int allowed, std::optional<double> quota, int parent, int processes) {
    return Processors{16, allowed, quota, parent}.usable_by_one_of(processes);
  };
  EXPECT_EQ(usable(16, {}, 16, 4), 4);
  EXPECT_EQ(usable(1, {}, 16, 2), 1) << "bound to a core";
  EXPECT_EQ(usable(8, {}, 16, 4), 4) << "bound to a socket, as one other is";
  EXPECT_EQ(usable(8, {}, 16, 2), 8) << "which have been divided already";
  EXPECT_EQ(usable(4, {}, 4, 2), 2) << "of a set that mpirun is in, too";
  EXPECT_EQ(usable(16, 6.0, 16, 2), 3);
  EXPECT_EQ(usable(2, {}, 2, 8), 1);
  EXPECT_EQ(usable(3, {}, 3, 1), 3);
}

// --- errors ---

TEST(Errors, HaveALineOfTheirOwnOrThatOfTheCall) {
  const Source mine{"moons.cpp", 12}, call{"main.cpp", 7};
  EXPECT_STREQ(UserError("`w` is odd.").what(), "`w` is odd.");
  EXPECT_FALSE(UserError("`w` is odd.").where().known());
  const WrittenAt at(call);
  const UserError without("nobody is at 127.0.0.1:8080"), with("`w` (moons.cpp:12) is odd.", mine);
  EXPECT_STREQ(without.what(), "nobody is at 127.0.0.1:8080 (main.cpp:7)");
  EXPECT_EQ(to_string(without.where()), "main.cpp:7");
  EXPECT_STREQ(with.what(), "`w` (moons.cpp:12) is odd.");
  EXPECT_EQ(to_string(with.where()), "moons.cpp:12");
}

}  // namespace
}  // namespace caravan
