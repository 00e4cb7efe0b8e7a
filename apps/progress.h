// Progress of long work: a line that redraws itself where the terminal can, plain lines now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "caravan/runtime/compile_notice.h"

namespace caravan::app {

// For ContextOptions::compiling: what takes long is told on a terminal, unless the command is to say nothing.
inline std::function<void(int, int)> compile_notice(bool quiet) { return quiet ? nullptr : notice_on_terminal(); }

struct ProgressOptions {
  int64_t lines = 0;   // about how many are written on standard output where no line can be redrawn
  bool quiet = false;  // nothing at all
  bool json = false;   // standard output is not ours; standard error is, where it is a terminal
};

class Progress {
 public:
  Progress(int64_t total, const ProgressOptions& options);
  ~Progress();
  // After each piece of work. The important notes come first: those that do not fit into the line are left out.
  void at(int64_t done, const std::vector<std::string>& notes);
  void clear();                    // takes the line away
  bool wants(int64_t done) const;  // whether `at` would show anything now; what it is given may be costly

 private:
  void draw(int64_t done, const std::vector<std::string>& notes);

  int64_t total_, every_;
  bool redrawn_, written_, drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace caravan::app
