// Progress of long work: a bar that redraws itself on a terminal, plain lines now and then in a pipe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "caravan/runtime/compile_notice.h"

namespace caravan::app {

// For ContextOptions::compiling: what takes long is told on a terminal, unless the command is to say nothing.
inline std::function<void(int, int)> compile_notice(bool quiet) { return quiet ? nullptr : notice_on_terminal(); }

class Progress {
 public:
  Progress(int64_t total, int64_t lines, bool quiet = false);  // `lines`: about how many in a pipe, 0 for none
  ~Progress();
  void at(int64_t done, const std::string& note);  // after each piece of work
  void clear();                                    // takes the bar away

 private:
  int64_t total_, every_;
  bool bar_, quiet_, drawn_ = false;
  int percent_ = -1;
};

}  // namespace caravan::app
