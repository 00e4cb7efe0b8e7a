// From the first step of a run to the last save.
#pragma once

#include "apps/train/prepare.h"
#include "apps/train/training.h"
#include "apps/train/watch.h"

namespace caravan::app {

// How a run ended, and what of it is kept.
struct Ended {
  Training::End how = Training::End::finished;
  History history;
  double seconds = 0;   // in steps
  Exchanged exchanged;  // by the devices of a mesh
  Kept kept;
  std::vector<std::string> problems;  // of the machine, a sentence each
};
Ended run(const Prepared& run, const Evaluation& evaluation, Keeper& keeper);

}  // namespace caravan::app
