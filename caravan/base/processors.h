// How many processors this process may use: fewer than the machine has under `taskset`, in a batch system's set of
// processors, and in a container that was given a share of their time.
#pragma once

#include <optional>
#include <string>

namespace caravan {

struct Processors {
  int online = 1;               // of the machine
  int allowed = 1;              // those that the calling thread may run on (sched_setaffinity, cpusets)
  std::optional<double> quota;  // processors' worth of time that its control group is given; none: no limit
  // How many threads can run at the same time: a part of a processor counts as none, but there is always one. With
  // more threads than that, all of them would be stopped for the rest of each period once its time is used up.
  int usable() const;
};

// Asks the system at every call. `root` stands before the paths of /proc and /sys, for tests.
Processors processors(const std::string& root = "");

}  // namespace caravan
