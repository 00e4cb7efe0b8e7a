#include "caravan/backend/cc/run_command.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "caravan/base/scratch.h"

extern char** environ;

namespace caravan::cc {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> environment_with(const std::string& temporary) {
  std::vector<std::string> out = {"LC_ALL=C"};
  if (!temporary.empty()) out.push_back("TMPDIR=" + temporary);
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const bool replaced = text.starts_with("LC_ALL=") || (!temporary.empty() && text.starts_with("TMPDIR="));
    if (!replaced) out.push_back(text);
  }
  return out;
}

// The running commands of this process; its mutex also guards those of groups. A process number is removed from the set
// before the process is reaped, and so before the system can give the number to another process.
struct Running {
  std::mutex mutex;
  std::set<pid_t> commands;
  bool ended = false;
};
Running& running() {
  // Never destroyed, because threads may still run commands while the program ends.
  static auto* const out = new Running;
  return *out;
}

void end_with_children(pid_t process) {
  kill(process, SIGSTOP);  // so that it cannot start another child meanwhile
  const std::string number = std::to_string(process);
  std::ifstream children("/proc/" + number + "/task/" + number + "/children");
  for (pid_t child; children >> child;) end_with_children(child);
  kill(process, SIGKILL);
}

std::string content_of(int file) {
  std::string out;
  char buffer[4096];
  for (ssize_t n; (n = pread(file, buffer, sizeof buffer, off_t(out.size()))) > 0;) out.append(buffer, size_t(n));
  return out;
}

}  // namespace

bool CommandResult::succeeded() const { return error == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0; }

std::string CommandResult::ending() const {
  if (error != 0) return std::strerror(error);
  if (WIFEXITED(status)) return "status " + std::to_string(WEXITSTATUS(status));
  return "signal " + std::to_string(WTERMSIG(status)) + ", " + strsignal(WTERMSIG(status));
}

CommandResult run_command(const std::vector<std::string>& command, const std::string& temporary, CommandGroup* group) {
  CommandResult out;
  // The output goes to memory, so that a compiler's message about a full disk needs no disk. (With a pipe, reading
  // would wait for every background process that inherits it.)
  const Descriptor said(memfd_create("output", MFD_CLOEXEC));
  if (!said.is_open()) {
    out.error = errno;
    return out;
  }
  const std::vector<std::string> variables = environment_with(temporary);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, said.number(), 1);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  for (int wait = 20; true; wait *= 2) {  // milliseconds: 20, 40, .. 640
    {
      const std::scoped_lock lock(running().mutex);
      const bool ended = running().ended || (group && group->ended_);
      out.error = ended ? ECANCELED
                        : posix_spawnp(&child, command[0].c_str(), &actions, nullptr, pointers(command).data(),
                                       pointers(variables).data());
      if (out.error == 0) {
        running().commands.insert(child);
        if (group) group->commands_.insert(child);
      }
    }
    if ((out.error != EAGAIN && out.error != ENOMEM) || wait > 640) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(wait));
  }
  posix_spawn_file_actions_destroy(&actions);
  if (out.error != 0) return out;
  siginfo_t ending;
  while (waitid(P_PID, id_t(child), &ending, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  {
    const std::scoped_lock lock(running().mutex);
    running().commands.erase(child);
    if (group) group->commands_.erase(child);
    while (waitpid(child, &out.status, 0) < 0 && errno == EINTR) {
    }
  }
  out.output = content_of(said.number());
  return out;
}

void CommandGroup::end() {
  const std::scoped_lock lock(running().mutex);
  ended_ = true;
  for (const pid_t command : commands_) end_with_children(command);
}

bool CommandGroup::is_ended() const {
  const std::scoped_lock lock(running().mutex);
  return ended_;
}

void end_commands() {
  const std::scoped_lock lock(running().mutex);
  running().ended = true;
  for (const pid_t command : running().commands) end_with_children(command);
}

}  // namespace caravan::cc
