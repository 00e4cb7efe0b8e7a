#include "command.h"

#ifdef CARAVAN_COMMAND
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

string Outcome::last_line() const {
  const string text = out.substr(0, out.find_last_not_of('\n') + 1);
  return text.substr(text.rfind('\n') + 1);
}

string content(const string& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

bool exists(const string& path) { return std::filesystem::exists(path); }

string new_folder() {
  string pattern = testing::TempDir() + "caravan.XXXXXX";
  if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
  return pattern;
}

void Command::SetUpTestSuite() {
  scratch_ = new_folder();
  const char* set = getenv("CARAVAN_CACHE");
  cache_ = set && *set ? set : scratch_ + "/kernels";
}
void Command::TearDownTestSuite() { std::filesystem::remove_all(scratch_); }
void Command::SetUp() { folder_ = new_folder(); }
void Command::TearDown() { std::filesystem::remove_all(folder_); }

Outcome Command::run(Arguments arguments, const Arguments& environment) const {
  arguments.insert(arguments.begin(), CARAVAN_COMMAND);
  return run_program(arguments, environment);
}

Outcome Command::good(const Arguments& arguments) const {
  const Outcome out = run(arguments);
  EXPECT_EQ(out.code, 0) << joined(arguments) << "\n" << out.err;
  return out;
}
Outcome Command::run_program(const Arguments& arguments, const Arguments& environment) const {
  return ended(start(arguments, environment));
}

pid_t Command::start(const Arguments& arguments, const Arguments& environment) const {
  const string out = folder_ + "/stdout", err = folder_ + "/stderr";
  const char* set = getenv("PATH");
  const string home = "HOME=" + folder_, cache = "CARAVAN_CACHE=" + cache_,
               path = string("PATH=") + (set ? set : "/usr/bin:/bin"),
               once = "CARAVAN_QUICK_START=0";  // each program is compiled once
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> argv, env;
    auto add = [](std::vector<char*>& list, const string& text) { list.push_back(const_cast<char*>(text.c_str())); };
    for (const string& a : arguments) add(argv, a);
    for (const string& e : environment) add(env, e);  // the first of equals counts
    add(env, home), add(env, cache), add(env, path), add(env, once);
    argv.push_back(nullptr), env.push_back(nullptr);
    const bool ready = chdir(folder_.c_str()) == 0 &&
                       dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1) == 1 &&
                       dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2) == 2;
    // Under nohup, and in the background of a shell, signals are ignored, and a program inherits that.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
    if (ready) execve(argv[0], argv.data(), env.data());
    _exit(127);
  }
  return child;
}

Outcome Command::ended(pid_t child) const {
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content(folder_ + "/stdout"),
          content(folder_ + "/stderr")};
}

void wait_until_runs(pid_t process, const string& program) {
  const string path = "/proc/" + std::to_string(process) + "/exe";
  for (int tenths = 0; tenths < 1200; ++tenths) {
    std::error_code gone;
    if (std::filesystem::equivalent(path, program, gone) || gone) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ADD_FAILURE() << "the process does not run " << program;
}

void wait_until_caught(pid_t process, int signal) {
  const string path = "/proc/" + std::to_string(process) + "/status", key = "SigCgt:\t";
  for (int tenths = 0; tenths < 1200; ++tenths) {
    const string status = content(path);
    const size_t at = status.find(key);
    if (at == string::npos || status.find("State:\tZ") != string::npos) break;  // it is gone
    if (std::stoull(status.substr(at + key.size()), nullptr, 16) >> (signal - 1) & 1) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ADD_FAILURE() << "no handler for signal " << signal;
}

string field(const string& json, const string& key) {
  const size_t at = json.find("\"" + key + "\":");
  if (at == string::npos) return "no " + key;
  const size_t from = at + key.size() + 3;
  return json.substr(from, json.find_first_of(",}", from) - from);
}

double number(const string& json, const string& key) {
  try {
    return std::stod(field(json, key));
  } catch (const std::exception&) {
    ADD_FAILURE() << key << " is not a number in " << json;
    return 0;
  }
}

string joined(const Arguments& arguments) {
  string out;
  for (const string& a : arguments) out += " " + a;
  return out;
}
#endif
