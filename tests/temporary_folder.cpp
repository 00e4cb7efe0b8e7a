#include "temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() : path((fs::temp_directory_path() / "caravan-test-XXXXXX").string()) {
  if (!mkdtemp(path.data())) throw std::runtime_error("no temporary folder");
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (getpid() == owner_) fs::remove_all(path, ignored);
}

size_t TemporaryFolder::files() const {
  return size_t(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}
