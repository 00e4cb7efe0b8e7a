// How many processors this process may use. It may be fewer than the machine has: under `taskset`, in the cpuset of a
// batch system, and in a container with a limit on CPU time.
#pragma once

#include <optional>
#include <string>

namespace caravan {

struct Processors {
  int online = 1;               // processors of the machine
  int allowed = 1;              // those that the calling thread may run on (sched_setaffinity, cpusets)
  std::optional<double> quota;  // limit of its control group on CPU time, in processors; none: no limit
  // Those that the process which started this one may run on: mpirun binds what it starts to some of its own.
  int allowed_to_parent = 1;
  // How many threads can run at the same time: the smaller of `allowed` and the quota, rounded down, but at least one.
  // With more threads, the kernel would stop all of them for the rest of each scheduling period once the quota is used
  // up.
  int usable() const;
  // The same for one of several processes with the same parent, which share what that may run on, and the quota. Each
  // may be bound to a part of it already, and is given no more than that.
  int usable_by_one_of(int processes) const;
};

// Asks the system at every call. `root` is prepended to the paths of /proc and /sys, for tests.
Processors processors(const std::string& root = "");

// What /proc/cpuinfo says of the first processor. Read once.
struct ProcessorModel {
  std::string name = "unknown";  // such as "AMD EPYC 7B13"
  std::string lines;             // those with its name and its features
};
const ProcessorModel& processor_model();

}  // namespace caravan
