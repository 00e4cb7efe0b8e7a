// Orders accumulations so that a state's new value is computed after the last reader of its old value. What is computed
// only for that new value, such as the gradient, comes directly before it. Then the update can be fused with the
// gradient and stored in place. What an optimiser computes from its own states alone, such as the corrections of Adam,
// comes first, so that nothing stands between a gradient and its update.
//
// May run on any verified program whose observed and assigned values are computed (copy_leaves). Promises an order in
// which operands come before their readers. Refuses to delay an update behind a reader of the old value that itself
// needs the new one: that reader stays after the update, and the state is updated by a copy at the end.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program delay_updates(const ir::Program& program);

}  // namespace caravan::optimize
