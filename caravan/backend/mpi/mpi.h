// Processes that mpirun has started as the devices of a mesh.
#pragma once

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

// The communicator of this process; all callers share one. Opens libmpi at the first call, and throws BackendError if
// that is not there or is not Open MPI. At the end of the process, waits a moment for the others; if they do not end,
// too, it stops them.
//
// Each process sends a sign of life to the next one every second. A process that has had none for kSilenceSeconds says
// so and ends all of them. What mpirun sees, such as a process that was killed, ends all of them at once.
inline constexpr int kSilenceSeconds = 8;
std::shared_ptr<backend::Communicator> communicator();

}  // namespace caravan::mpi
