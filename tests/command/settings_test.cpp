// Settings and where they come from; what is compiled, on how many threads, and when that is told.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "command.h"

namespace {

TEST_F(Command, SettingsComeFromTheCommandLineThenTheEnvironmentThenTheFile) {
  std::ofstream(folder_ + "/caravan.toml") << "seed = 5\nthreads = 3\ndata = \"/somewhere\"\n";
  const Outcome o = run({"doctor", "--json"}, {"CARAVAN_THREADS=2"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, R"("seed":{"value":"5","source":"caravan.toml"})");
  EXPECT_CONTAINS(o.out, R"("threads":{"value":"2","source":"CARAVAN_THREADS"})");
  EXPECT_CONTAINS(o.out, R"("data":{"value":"/somewhere","source":"caravan.toml"})");
  EXPECT_CONTAINS(o.out, R"("device":{"value":"auto","source":"default"})");
  EXPECT_CONTAINS(o.out, R"({"name":"interp","works":true)");

  const Arguments train = {"train", "moons", "--steps", "1", "--quiet", "--json"};
  EXPECT_EQ(field(run(train).out, "seed"), "5");
  EXPECT_EQ(field(run(train, {"CARAVAN_SEED=6"}).out, "seed"), "6");
  Arguments with_seed = train;
  with_seed.insert(with_seed.end(), {"--seed", "7", "--log", "1"});
  const Outcome logged = run(with_seed, {"CARAVAN_SEED=6"});
  EXPECT_EQ(field(logged.out, "seed"), "7");
  EXPECT_CONTAINS(logged.err, "command line");
  EXPECT_CONTAINS(logged.err, "caravan.toml");
}

string repeated(const string& text, int times) {
  string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// What a command writes to standard error, which is a terminal.
string said_on_a_terminal(const Arguments& arguments, const Arguments& environment) {
  int terminal = -1, end = -1;
  if (openpty(&terminal, &end, nullptr, nullptr, nullptr) != 0) return "no terminal";
  const pid_t child = fork();
  if (child == 0) {
    for (const string& e : environment) putenv(const_cast<char*>(e.c_str()));
    std::vector<char*> argv;
    for (const string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    if (dup2(end, 2) == 2 && dup2(open("/dev/null", O_WRONLY), 1) == 1) execv(argv[0], argv.data());
    _exit(127);
  }
  close(end);
  string out;
  char buffer[512];
  for (ssize_t n; (n = read(terminal, buffer, sizeof buffer)) > 0;) out.append(buffer, size_t(n));
  close(terminal);
  waitpid(child, nullptr, 0);
  return out;
}
TEST_F(Command, ALongCompilationIsToldOnATerminalAlone) {
  std::filesystem::create_directory(folder_ + "/bin");
  const string slow = folder_ + "/bin/cc", path = string("PATH=") + folder_ + "/bin:" + getenv("PATH");
  std::ofstream(slow) << "#!/bin/sh\ncase \"$*\" in *-shared*) sleep 1.5;; esac\nexec /usr/bin/cc \"$@\"\n";
  std::filesystem::permissions(slow, std::filesystem::perms(0755));
  const Arguments train = {CARAVAN_COMMAND, "train", "linear", "--steps", "1", "--device", "cpu"};
  auto with = [&](Arguments more) {
    Arguments out = train;
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  auto cache = [&](const char* name) { return "CARAVAN_CACHE=" + folder_ + "/" + name; };
  const string told = said_on_a_terminal(train, {path, cache("a")});
  const size_t at = told.find("\rcompiling\x1b[K");
  ASSERT_NE(at, string::npos) << told;
  EXPECT_NE(told.find("\r\x1b[K", at + 1), string::npos) << "the line goes: " << told;
  EXPECT_EQ(said_on_a_terminal(train, {path, cache("a")}).find("compiling"), string::npos) << "from the cache";
  EXPECT_NE(said_on_a_terminal(with({"--json"}), {path, cache("b")}).find("compiling"), string::npos);
  EXPECT_EQ(said_on_a_terminal(train, {path, cache("e"), "TERM=dumb"}).find("compiling"), string::npos);
  EXPECT_EQ(said_on_a_terminal(with({"--quiet"}), {path, cache("c")}).find("compiling"), string::npos);
  EXPECT_EQ(run_program(train, {path, cache("d")}).err.find("compiling"), string::npos) << "no terminal";
}

TEST_F(Command, AnotherRateOrNumberOfStepsCompilesNothing) {
  const Arguments own = {"CARAVAN_CACHE=" + folder_ + "/kernels"};
  auto kernels = [&] { return number(run({"doctor", "--json"}, own).out, "kernels"); };
  const Outcome first = run({"train", "moons", "--quiet", "--json", "--device", "cpu", "--steps", "100"}, own);
  const double compiled = kernels();
  EXPECT_GT(compiled, 0);
  const Outcome other =
      run({"train", "moons", "--quiet", "--json", "--device", "cpu", "--steps", "90", "--lr", "0.03"}, own);
  EXPECT_EQ(kernels(), compiled);
  EXPECT_NE(number(first.out, "loss"), number(other.out, "loss"));
}

TEST_F(Command, ThreadsAreThoseThatTheProcessMayHave) {
  const Outcome o = run_program({"/usr/bin/taskset", "-c", "0", CARAVAN_COMMAND, "doctor", "--json"});
  if (o.code == 127) GTEST_SKIP() << "there is no taskset";
  EXPECT_CONTAINS(o.out, R"("threads":{"value":"1","source":"default"})");
  EXPECT_CONTAINS(o.out, R"("allowed":1,"usable":1)");
  EXPECT_CONTAINS(run_program({"/usr/bin/taskset", "-c", "0", CARAVAN_COMMAND, "doctor"}).out, "\ncores    1 of ");
}

TEST_F(Command, WrongSettingsNameTheirSource) {
  EXPECT_CONTAINS(run({"doctor"}, {"CARAVAN_THREADS=many"}).err, "threads (from CARAVAN_THREADS) is `many`");
  EXPECT_EQ(run({"train", "moons"}, {"CARAVAN_DEVICE=abacus"}).code, 2);
  struct {
    string file, phrase;
  } rows[] = {
      {"sead = 5\n", "line 1: there is no setting `sead`"},
      {"\nseed = [1]\n", "line 2: `seed` must be"},
      {"seed = \n", "line 1"},
      {"threads = 0\n", "threads (from caravan.toml) is `0`"},
      {"seed = 1\ncache = \".k\"\n",
       "line 2: `cache` is not taken from a file of the current folder, because whoever wrote the file could have code "
       "of theirs run; remove the line, and set CARAVAN_CACHE"},
      {"cache_limit = 1\n", "line 1: `cache_limit` is not taken from a file of the current folder"},
      {"seed = 1\n" + repeated("a.", 30'000) + "a = 1\n", "line 2: it has more than 32 dots"},
      {"[" + repeated("a.", 25'000) + "a]\n", "line 1: it has more than 32 dots"},
      {repeated("# a remark\n", 6'000), "caravan.toml has 66000 bytes, and at most 65536 are read"},
      {"seed = " + repeated("[", 10'000), "caravan.toml, line 1"},
      {"compiler = \"./cc\"\n",
       "there is no setting `compiler`; there are device, threads, quick_start, log, data, seed."},
  };
  for (const auto& [file, phrase] : rows) {
    std::ofstream(folder_ + "/caravan.toml") << file;
    const Outcome o = run({"doctor"});
    EXPECT_EQ(o.code, 2) << file;
    EXPECT_CONTAINS(o.err, phrase);
    EXPECT_EQ(run({"doctor", "--help"}).code, 0);
  }
  const string path = folder_ + "/caravan.toml";
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_CONTAINS(run({"doctor"}).err, "caravan.toml cannot be read: it is a FIFO");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_CONTAINS(run({"doctor"}).err, "caravan.toml cannot be read: it is a folder");
}

}  // namespace
