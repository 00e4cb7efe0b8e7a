// What every layer stands on: files that must be regular ones.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

#include "caravan/base/regular_file.h"
#include "temporary_folder.h"

namespace caravan {
namespace {

using std::string;
using Links = RegularFile::Links;

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

}  // namespace
}  // namespace caravan
