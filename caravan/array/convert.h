// Elements of one precision as elements of another, as `cast` does (ops/dtype.h, rule 5): a copy where both are the
// same, a loop over the types of C++ where both have one.
#pragma once

#include "caravan/ops/dtype.h"

namespace caravan {

// The memories do not overlap.
void convert_elements(DType from, const void* source, DType to, void* target, int64_t count);

}  // namespace caravan
