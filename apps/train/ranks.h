// The processes of a run that mpirun has started. A run without mpirun is one process, number 0.
#pragma once

#include <functional>
#include <string>

#include "apps/commands.h"
#include "caravan/base/error.h"
#include "caravan/mesh/mesh.h"

namespace caravan::app {

int processes();  // that mpirun has started
int this_rank();
// Whether one of the processes says so; all of them must ask.
bool any_rank(bool says_so);

// What processes refuse with a UserError is said once. Runs what each process does by itself before they have met. What
// the first one refuses, it alone says: all others throw SaidByFirst, whether they refuse it or not.
void before_all_meet(const std::function<void()>& what);
struct SaidByFirst {};
void leave_to_first(const UserError& error);  // in all but the first process, which refuses the same: SaidByFirst
// What processes compute alike after they have met, up to where they agree about it, such as the program of a Context.
// What all refuse with the same message, the first one alone says.
template <class Compute>
auto alike(const Compute& compute) {
  try {
    return compute();
  } catch (const UserError& error) {
    leave_to_first(error);
    throw;
  }
}
bool have_met();  // the processes; before, each of them has only what it was started with

void wait_for_ranks();  // returns when all processes are here: the first may still write what others know nothing of
// Throws BackendError if the processes of a run do not give the same text; `what` is what differs: "another --lr".
void agree(const std::string& what, const std::string& text);

// The mesh of `--devices`: "4" or "cpu:0,cpu:1", along the axis "data" that recipes place their batches on. Without it,
// the processes that mpirun has started. `device` becomes what the list names. Throws ConfigError.
Mesh mesh_of(const MeshWishes& wishes, std::string& device);

void be_silent();  // from now on, nothing is printed to standard output: that is what process 0 does

}  // namespace caravan::app
