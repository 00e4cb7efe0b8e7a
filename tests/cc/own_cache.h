// A folder for compiled code that only this test program uses.
#pragma once

#include <string>

#include "temporary_folder.h"

namespace caravan {

inline const std::string& own_cache() {
  static const TemporaryFolder folder;
  return folder.path;
}

}  // namespace caravan
