// The backward pass as a list: what each node receives, and from whom.
#pragma once

#include <iosfwd>

#include "caravan/runtime/context.h"

namespace caravan::app {

void show_backward(std::ostream& out, const Tensor& loss, Context& ctx, const IndexValues& values);

}  // namespace caravan::app
