// Computes values a second time where they are needed late, instead of keeping them until then, so that fewer bytes are
// live at a time:
//
//     u = w1 x                              u = w1 x
//     y = gelu(u)                           y = gelu(u)
//     z = w2 y                   becomes    z = w2 y
//     ...   (other layers)                  ...
//                                           y.again = gelu(u)   after dz
//     dw2 = dz y                            dw2 = dz y.again
//
// May run on any verified program, last: the order of its accumulations is the order in which they are to run. In every
// step it looks at the point where most bytes are live, and takes a buffer that is not needed there, but later. It
// prefers one that saves many bytes for a long time and costs few operations: elementwise functions first, then norms
// and softmax, then whole products. What the value is computed from may not be live any more at that time. If it is
// small, it is kept until then, else it is computed again, too.
//
// Promises the same bits: every accumulation is repeated as it is, with the same order of sums. Refuses to repeat what
// reads the old value of a state after its update, to repeat more than kMostRepeated accumulations for one value, and
// what would not make the peak lower.
// Accumulations that are to become one kernel, such as those of attention, are a *part*: nothing is computed again
// between them, and the values inside of it, which are never stored, are computed again only with all of the part.
// Attention has a part forward and one for its gradient, which reads values inside of the first. If its result is
// computed again, so are these, and the gradient reads the new ones. What the forward part reads is computed again for
// the gradient only after that.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

// Accumulations that are computed again for one value. It bounds the time of the pass, and was not tuned.
inline constexpr size_t kMostRepeated = 32;

struct Rematerialised {
  ir::Program program;
  int64_t live = 0;  // the most bytes that are live at a time, with the sizes that were given
};

struct Group {
  std::vector<ir::BufferId> forward, gradient;  // the values inside of both parts
  ir::BufferId result = -1;
  std::vector<ir::BufferId> gradients{};  // the results of the second part; none: there is none
};

// Stops when at most `limit` bytes are live, or when no step makes the peak lower. `bytes`, by buffer, says how much
// memory it takes: 0 for one that is never stored, because its producer is fused with its readers.
Rematerialised rematerialise(const ir::Program& program, std::vector<int64_t> bytes, int64_t limit,
                             const std::vector<Group>& groups = {});

}  // namespace caravan::optimize
