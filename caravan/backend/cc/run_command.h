// Runs a command to its end and collects its output.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace caravan::cc {

struct CommandResult {
  int error = 0;       // why it could not be started, a value of errno; 0: it ran
  int status = 0;      // as waitpid reports it
  std::string output;  // standard output and standard error
  bool succeeded() const;
  std::string ending() const;  // "status 1", "signal 9, Killed", "Resource temporarily unavailable"
};

// Commands that are ended together, while others go on.
class CommandGroup {
 public:
  // Kills the running commands of the group and their child processes, and lets no other of it begin. Threads that wait
  // for one of them get a result that did not succeed.
  void end();
  bool is_ended() const;

 private:
  friend CommandResult run_command(const std::vector<std::string>&, const std::string&, CommandGroup*);
  std::set<pid_t> commands_;
  bool ended_ = false;
};

// The first word is searched on the PATH. `temporary` is the folder for the command's temporary files; empty: the usual
// one. The command's messages are in English. If the system cannot start another process, this tries again for about a
// second. The command belongs to `group`, if one is given.
CommandResult run_command(const std::vector<std::string>& command, const std::string& temporary = "",
                          CommandGroup* group = nullptr);

// Kills the running commands and their child processes, and lets no other begin: for a program that is about to end and
// must not wait for a compiler. Threads that wait for a command get a result that did not succeed.
void end_commands();

}  // namespace caravan::cc
