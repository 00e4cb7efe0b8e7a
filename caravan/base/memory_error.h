// There is not enough memory: for what, and how many bytes.
#pragma once

#include "caravan/base/error.h"

namespace caravan {

class MemoryError : public BackendError {
 public:
  using BackendError::BackendError;
};

}  // namespace caravan
