// What is told of a run when it has ended: what it found, pictures, JSON, what failed, and the exit code.
#pragma once

#include "apps/train/run.h"

namespace caravan::app {

// One way for every run to end. Whatever fails is told, and keeps nothing else from being done.
int report(const Prepared& run, const Evaluation& evaluation, const Outputs& outputs, Ended ended,
           const Keeper& keeper);

}  // namespace caravan::app
