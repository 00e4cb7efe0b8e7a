// Thrown if there is not enough memory. The message says for what, and how many bytes.
#pragma once

#include "caravan/base/error.h"

namespace caravan {

class MemoryError : public BackendError {
 public:
  using BackendError::BackendError;
};

}  // namespace caravan
