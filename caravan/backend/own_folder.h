// A folder for this process alone, made at the first call and removed when the process ends. A child of fork() gets
// another one.
#pragma once

#include <optional>
#include <string>

#include "caravan/base/error.h"

namespace caravan::backend {

class NoFolderError : public BackendError {  // no such folder can be made
 public:
  using BackendError::BackendError;
};
std::string own_folder();
std::optional<std::string> own_folder_if_made();

}  // namespace caravan::backend
