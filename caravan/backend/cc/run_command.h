// A command run to its end, with all it says.
#pragma once

#include <string>
#include <vector>

namespace caravan::cc {

struct CommandResult {
  int error = 0;       // why it could not be started, a value of errno; 0: it ran
  int status = 0;      // as waitpid tells it
  std::string output;  // standard output and standard error
  bool succeeded() const;
  std::string ending() const;  // "status 1", "signal 9, Killed", "Resource temporarily unavailable"
};

// The first word is looked for on the PATH. `temporary`: the folder for the command's temporary files; empty: the usual
// one. Messages are in English. Where the system has no room for another process, it is asked again for about a second.
CommandResult run_command(const std::vector<std::string>& command, const std::string& temporary = "");

// Ends the commands that run, with what they started, and lets no other begin: for a program that is about to end and
// must not wait for a compiler. Those who wait for a command get a result that did not succeed.
void end_commands();

}  // namespace caravan::cc
