// caravan serve as a process: started, asked, and told to stop.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "caravan/backend/cc/find_compiler.h"
#include "sanitized.h"
#include "serve/serve.h"
#include "temporary_folder.h"

namespace caravan::serve {
namespace {

struct Child {
  pid_t pid = -1;
  int output = -1;  // of both streams

  explicit Child(const std::vector<string>& arguments) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    pid = fork();
    if (pid == 0) {
      std::vector<char*> argv;
      for (const string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
      argv.push_back(nullptr);
      dup2(ends[1], 1), dup2(ends[1], 2);
      close(ends[0]);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    output = ends[0];
  }
  ~Child() {
    if (!ended_) kill(pid, SIGKILL), waitpid(pid, nullptr, 0);  // a test that failed leaves no server behind
    close(output);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  string line() const {
    string out;
    for (char c; read(output, &c, 1) == 1 && c != '\n';) out += c;
    return out;
  }
  int exit_code() {
    int status = 0;
    waitpid(pid, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  bool ended_ = false;
};

TEST(ServeCommand, StopsCleanlyWhenTold) {
  for (int signal : {SIGINT, SIGTERM}) {
    Child child({CARAVAN_COMMAND, "serve", "--port", "0"});
    const string line = child.line();
    const size_t at = line.find("http://127.0.0.1:");
    ASSERT_NE(at, string::npos) << line;
    Connection idle(std::stoi(line.substr(at + 17)));
    idle.send(get_request("/"));
    EXPECT_EQ(idle.receive().status, 200);
    const auto start = std::chrono::steady_clock::now();
    kill(child.pid, signal);
    EXPECT_EQ(child.exit_code(), 0);
    if (!kSanitized) {
      EXPECT_LT(milliseconds_since(start),
                60'000);  // a kernel that is being compiled is waited for, the training is not
    }
  }
}

TEST(ServeCommand, StopsAtOnceThoughAClientIsSlow) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Child child({CARAVAN_COMMAND, "serve", "--port", "0"});
    const string line = child.line();
    ASSERT_NE(line.find("http://127.0.0.1:"), string::npos) << line;
    const SlowClients slow(std::stoi(line.substr(line.find("http://127.0.0.1:") + 17)), 5, kHalfHead);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const auto start = std::chrono::steady_clock::now();
    kill(child.pid, signal);
    EXPECT_EQ(child.exit_code(), 0);
    if (!kSanitized) {
      EXPECT_LT(milliseconds_since(start), 10'000);
    }
  }
}

// A compiler that would take a minute, with a process of its own.
TEST(ServeCommand, StopsAtOnceThoughACompilerIsAtWork) {
  const TemporaryFolder folder;
  const string compiler = folder.path + "/cc", pids = folder.path + "/pids", path = getenv("PATH"),
               real = cc::path_of("cc");
  if (real.empty()) GTEST_SKIP() << "there is no C compiler";
  std::ofstream(compiler) << "#!/bin/sh\ncase \"$*\" in *-version*) exec " << real
                          << " \"$@\";; esac\nsleep 60 & echo $! >> " << pids << "\necho $$ >> " << pids << "\nwait\n";
  chmod(compiler.c_str(), 0755);
  setenv("PATH", (folder.path + ":" + path).c_str(), 1);
  const string cache = getenv("CARAVAN_CACHE") ? getenv("CARAVAN_CACHE") : "";
  setenv("CARAVAN_CACHE", (folder.path + "/cache").c_str(), 1);
  Child child({CARAVAN_COMMAND, "serve", "--device", "cpu", "--port", "0"});
  setenv("PATH", path.c_str(), 1);
  cache.empty() ? unsetenv("CARAVAN_CACHE") : setenv("CARAVAN_CACHE", cache.c_str(), 1);
  child.line();
  auto started = [&] {
    std::ifstream file(pids);
    return std::vector<pid_t>(std::istream_iterator<pid_t>(file), {});
  };
  for (int tries = 0; tries < 1000 && started().size() < 2; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_GE(started().size(), 2u);
  const auto start = std::chrono::steady_clock::now();
  kill(child.pid, SIGINT);
  EXPECT_EQ(child.exit_code(), 0);
  EXPECT_LT(milliseconds_since(start), 30'000);
  for (const pid_t process : started()) {
    string state = "R";
    for (int tries = 0; tries < 200 && state != "Z" && !state.empty();
         ++tries, std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
      std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
      string number, name;
      state.clear();
      stat >> number >> name >> state;
    }
    EXPECT_TRUE(state.empty() || state == "Z") << "what it started ends with it";
  }
}

// Both signals are there before the program looks at the first one; the second does what it does to any program.
TEST(ServeCommand, ASecondSignalEndsItAtOnce) {
  Child child({CARAVAN_COMMAND, "serve", "--port", "0"});
  child.line();
  kill(child.pid, SIGSTOP);
  int status = 0;
  waitpid(child.pid, &status, WUNTRACED);
  kill(child.pid, SIGINT);
  kill(child.pid, SIGTERM);
  kill(child.pid, SIGCONT);
  EXPECT_EQ(child.exit_code(), 128 + SIGTERM);
}

TEST(ServeCommand, WarnsWhereOthersCanReachIt) {
  Child child({CARAVAN_COMMAND, "serve", "--port", "0", "--host", "0.0.0.0"});
  EXPECT_NE(child.line().find("The page is at http://0.0.0.0:"), string::npos);
  EXPECT_EQ(child.line(), "caravan: warning: others on the network can reach the page, and there is no password.");
  kill(child.pid, SIGINT);
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(ServeCommand, EndsWhereItCannotListenAgain) {
#ifdef SYS_pidfd_getfd
  Child child({CARAVAN_COMMAND, "serve", "--port", "0"});
  const string line = child.line();
  const int port = std::stoi(line.substr(line.rfind(':') + 1)), process = int(syscall(SYS_pidfd_open, child.pid, 0));
  std::vector<int> copies;
  for (int fd = 3; fd < 64; ++fd) copies.push_back(int(syscall(SYS_pidfd_getfd, process, fd, 0)));
  const int ended = shut_down_listening(port, true);
  for (const int fd : copies)
    if (fd >= 0) close(fd);
  close(process);
  if (ended == 0) GTEST_SKIP() << "the child's socket cannot be had here";
  EXPECT_EQ(child.line(),
            "caravan: cannot listen on http://127.0.0.1:" + std::to_string(port) + " any more; start the page again.");
  EXPECT_EQ(child.exit_code(), 3);
#else
  GTEST_SKIP() << "the child's socket cannot be had here";
#endif
}

// Trains a recipe for a step and saves it.
string saved(const string& recipe) {
  const string file = testing::TempDir() + "serve_test." + std::to_string(getpid()) + "." + recipe + ".safetensors";
  Child child({CARAVAN_COMMAND, "train", recipe, "--steps", "1", "--quiet", "--save", file});
  EXPECT_EQ(child.exit_code(), 0) << child.line();
  return file;
}

TEST(ServeCommand, ServesAModelThatWasSaved) {
  const string file = saved("mnist-mlp");
  Child child({CARAVAN_COMMAND, "serve", "--port", "0", file});
  const string line = child.line();
  const size_t at = line.find("http://127.0.0.1:");
  ASSERT_NE(at, string::npos) << line;
  Connection connection(std::stoi(line.substr(at + 17)));
  connection.send(get_request("/api/status"));
  const Json status = Json::parse(connection.receive().body);
  EXPECT_EQ(status["ready"], true);
  EXPECT_EQ(status["model"].get<string>().find("mnist-mlp, trained on "), 0u) << status;
  connection.send(post_request("/api/predict", Json{{"pixels", stroke(14)}}.dump()));
  const Json answer = Json::parse(connection.receive().body);
  EXPECT_EQ(answer["probabilities"].size(), 10u);
  EXPECT_EQ(answer["layers"].size(), 4u);  // three hidden ones
  kill(child.pid, SIGINT);
  EXPECT_EQ(child.exit_code(), 0);
  unlink(file.c_str());
}

TEST(ServeCommand, RefusesAModelThatDoesNotReadDigits) {
  const string file = saved("moons");
  Child child({CARAVAN_COMMAND, "serve", "--port", "0", file});
  EXPECT_EQ(
      child.line(),
      "caravan: " + file +
          " holds moons, which does not read digits; `caravan train mnist-mlp --save FILE` makes a model that does.");
  EXPECT_EQ(child.exit_code(), 2);
  unlink(file.c_str());
}

TEST_F(Serve, TheCommandRefusesInOneSentence) {
  struct {
    std::vector<string> arguments;
    int code;
    string phrase;
  } rows[] = {
      {{"--port", std::to_string(port())}, 3, "caravan: cannot listen on 127.0.0.1:" + std::to_string(port())},
      {{"--port", "70000"}, 2, "70000"},
      {{"--port", "many"}, 2, "many"},
      {{"--frobnicate"}, 2, "no option `--frobnicate`"},
      {{"no.such.file"}, 2, "no.such.file"},
      {{"tests/fixtures/random_0036.safetensors"}, 2, "tests/fixtures/random_0036.safetensors"},
      {{"--data", "tests", "--port", "0"}, 2, "tests"},
  };
  for (const auto& [arguments, code, phrase] : rows) {
    std::vector<string> all = {CARAVAN_COMMAND, "serve"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Child child(all);
    EXPECT_NE(child.line().find(phrase), string::npos) << phrase;
    EXPECT_EQ(child.exit_code(), code) << phrase;
  }
}

}  // namespace
}  // namespace caravan::serve
