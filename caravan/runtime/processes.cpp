#include "caravan/runtime/processes.h"

#include "caravan/backend/mpi/mpi.h"

namespace caravan {

int process_rank() { return mpi::launch().rank; }
int process_count() { return mpi::launch().processes; }

}  // namespace caravan
