#include "caravan/backend/own_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>

#include "caravan/base/folders.h"
#include "caravan/base/list_text.h"
#include "caravan/base/scratch.h"

namespace caravan::backend {

namespace {

struct OwnFolder {
  std::mutex mutex;
  std::unique_ptr<ScratchFolder> folder;
  pid_t owner = 0;
};
OwnFolder& own() {
  static OwnFolder only;
  return only;
}

}  // namespace

std::string own_folder() {
  constexpr const char* kPrefix = "caravan-";
  OwnFolder& only = own();
  const std::lock_guard lock(only.mutex);
  if (only.folder && only.owner == getpid()) return only.folder->path();
  std::string tried;
  for (const std::string& place : {temporary_folder(), std::string("/tmp")}) {
    if (tried.find("`" + place + "`") != tried.npos) continue;
    remove_abandoned_folders(place, kPrefix);
    auto folder = ScratchFolder::make(place, kPrefix);
    const std::string problem = folder ? check_folder(folder->path()).problem : std::strerror(errno);
    if (problem.empty()) {
      only.folder = std::move(folder), only.owner = getpid();
      return only.folder->path();
    }
    add_to_list(tried, fmt::format("`{}`: {}", place, problem), "; ");
  }
  throw NoFolderError("there is no folder for temporary files, because of " + tried);
}

std::optional<std::string> own_folder_if_made() {
  OwnFolder& only = own();
  const std::lock_guard lock(only.mutex);
  if (!only.folder || only.owner != getpid()) return std::nullopt;
  return only.folder->path();
}

}  // namespace caravan::backend
