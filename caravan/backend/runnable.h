// What a device must know of a plan to run its compiled kernels. It is kept in the cache of compiled code, so that a
// program that was compiled before starts without its plan being made again.
#pragma once

#include <string>
#include <vector>

#include "caravan/backend/note.h"
#include "caravan/plan/plan.h"

namespace caravan::backend {

// A leaf of the program that the kernels have in memory. Passes may number buffers anew.
struct LeafUse {
  ir::BufferId buffer = -1, leaf = -1;  // its number in the kernels and in the program
  bool operator==(const LeafUse&) const = default;
};
// How a plan uses a state.
struct StateUse : LeafUse {
  bool read = false, assigned = false;
  bool operator==(const StateUse&) const = default;
};

struct Runnable {
  int64_t kernels = 0, buffers = 0;  // how many there are
  int64_t arena_bytes = 0;
  bool parallel = false;  // has it a parallel loop?
  struct Place {          // of a buffer in the arena
    ir::BufferId buffer = -1;
    int64_t offset = 0;
    bool operator==(const Place&) const = default;
  };
  std::vector<Place> places;
  std::vector<StateUse> states;
  std::vector<LeafUse> data;
  std::vector<ir::BufferId> observed;  // in the order of the program
  bool operator==(const Runnable&) const = default;
};
std::vector<StateUse> state_uses(const plan::Plan& plan);
Runnable runnable(const plan::Plan& plan);

void write(NoteWriter& note, const Runnable& runnable);
Runnable read_runnable(NoteReader& note);

// A text that two plans share only if they have the same kernels: from what the plan is made of, and which build of
// this library makes it. Empty if the build is not known, or if the kernels call functions of the library: then nothing
// is to be kept.
std::string origin(const plan::Plan& plan);

}  // namespace caravan::backend
