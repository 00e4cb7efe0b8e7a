// Processes that mpirun has started as the devices of a mesh.
#pragma once

#include <chrono>
#include <memory>

#include "caravan/backend/communicator.h"

namespace caravan::mpi {

// What mpirun has told this process in its environment. Opens no library.
struct Launch {
  int rank = 0, processes = 1;
  int rank_here = 0, processes_here = 1;  // of those on this machine
};
Launch launch();
// The version of the library that was found, or why there is none, in words without a full stop. Never throws.
std::string note();

// How long a process waits for others. What mpirun sees, such as a process that was killed, ends all of them at once;
// these limits are for what it does not see. All were chosen, not measured.
struct Limits {
  // Until all processes have called communicator(), each of them ends with a message; then mpirun ends the others. It
  // is time for some thousands of processes to find each other, and for one machine to read its data more slowly.
  std::chrono::seconds start{60};
  // Each process sends a sign of life to the next one every second. Without any for so long, that ends all of them.
  std::chrono::seconds silence{8};
  // A process that others have waited for so long, and that gives signs of life, says so in a line, and again after
  // twice as long. Nobody ends it: it may be compiling, and there is no telling.
  std::chrono::seconds wait{30};
  // At the end of a process: for the others to end, too, and for Open MPI to part from them.
  std::chrono::seconds end{3}, parting{20};
};

// The communicator of this process; all callers share the first one's. Opens libmpi at the first call, and throws
// BackendError if that is not there or is not Open MPI. Is made in all processes, or the limit of the start ends them.
// At the end of the process, waits a moment for the others; if they do not end, too, it stops them.
std::shared_ptr<backend::Communicator> communicator(const Limits& limits = {});

}  // namespace caravan::mpi
