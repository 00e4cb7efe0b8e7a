// Orders accumulations so that a state's new value is made after the last reader of its old value, with what was made
// for that value alone directly before it. Then the update can be fused with the gradient and stored in place.
//
// May run on any verified program whose roots are computed (copy_leaves). Promises an order in which operands come
// before their readers. Refuses to delay an update behind a reader that needs the new value: that reader stays behind,
// and the state is updated by a copy at the end.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program delay_updates(const ir::Program& program);

}  // namespace caravan::optimize
