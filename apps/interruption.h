// Being asked to stop, as something to look at between two pieces of work.
//
//     const Interruption interruption;
//     while (more() && !Interruption::asked()) work();
//     if (Interruption::asked()) { save(); return Interruption::exit_code(); }
//
// Asked by Ctrl-C (SIGINT), by `docker stop`, `kill` and batch systems (SIGTERM), by a terminal that is closed (SIGHUP)
// and by a reader of the output that left (SIGPIPE). A second Ctrl-C or SIGTERM ends the program at once.
#pragma once

#include <csignal>

namespace caravan::app {

class Interruption {
 public:
  Interruption();
  ~Interruption();  // gives the signals back
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

  static bool asked() { return signal() != 0; }  // since the program began
  static int signal();                           // the first one that asked; 0: none
  static int exit_code() { return 128 + signal(); }

 private:
  struct sigaction before_[4]{};  // in the order of kSignals
};

}  // namespace caravan::app
