// Orders accumulations so that the last readers of large buffers run as soon as they can, and the memory is free for
// others. In the backward pass of y = w x, for example, the gradient of w is computed right after that of y, and not
// after the gradients of all layers, until when x and the gradient of y would have to be kept:
//
//     dy3, dy2, dy1, dw3, dw2, dw1        becomes        dy3, dw3, dy2, dw2, dy1, dw1
//
// May run on any verified program, after delay_updates. Promises an order in which operands come before their readers,
// and in which readers of a state's old value that came before its update still do. What frees no memory stays in the
// order that it had. Refuses programs whose peak would not become lower, and small ones (Tuning).
#pragma once

#include "caravan/ir/program.h"
#include "caravan/target/target.h"

namespace caravan::optimize {

// Most accumulations that are moved forward together: a gradient and the updates that it is needed for.
inline constexpr size_t kLongestCascade = 16;

ir::Program free_early(const ir::Program& program, const Target& target);

}  // namespace caravan::optimize
