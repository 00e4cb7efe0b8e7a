// The processes of a run that mpirun has started. A run without mpirun is one process, number 0.
#pragma once

#include <functional>
#include <string>

#include "apps/commands.h"
#include "caravan/mesh/mesh.h"

namespace caravan::app {

int processes();  // that mpirun has started
int this_rank();
// Whether one of the processes says so; all of them must ask.
bool any_rank(bool says_so);

// Runs what each process does by itself before they have met. What the first one refuses with a UserError, it alone
// says: all others throw SaidByFirst, whether they refuse it or not.
void before_all_meet(const std::function<void()>& what);
struct SaidByFirst {};

void wait_for_ranks();  // returns when all processes are here: the first may still write what others know nothing of
// Throws BackendError if the processes of a run do not give the same text; `what` is what differs: "another --lr".
void agree(const std::string& what, const std::string& text);

// The mesh of `--devices`: "4" or "cpu:0,cpu:1", along the axis "data" that recipes place their batches on. Without it,
// the processes that mpirun has started. `device` becomes what the list names. Throws ConfigError.
Mesh mesh_of(const MeshWishes& wishes, std::string& device);

void be_silent();  // from now on, nothing is printed to standard output: that is what process 0 does

}  // namespace caravan::app
