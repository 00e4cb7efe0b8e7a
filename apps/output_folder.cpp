#include "apps/output_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "caravan/base/error.h"

namespace caravan::app {

OutputFolder::OutputFolder(const std::string& path, const std::string& option) : path_(path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && !std::filesystem::is_directory(path, error)) error = std::make_error_code(std::errc::not_a_directory);
  if (!error && access(path.c_str(), W_OK | X_OK) != 0) error = {errno, std::generic_category()};
  if (error)
    throw ConfigError(fmt::format("{} `{}` is not a folder that can be written: {}.", option, path, error.message()));
}

void OutputFolder::write(const std::string& file, const std::string& text) const {
  const std::string path = path_ + "/" + file;
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw BackendError(fmt::format("{} could not be written; is the disk full?", path));
}

OutputFile::OutputFile(const std::string& path, const std::string& option)
    : folder_(std::filesystem::path("." / std::filesystem::path(path)).parent_path(), option),
      name_(std::filesystem::path(path).filename()) {
  if (name_.empty() || std::filesystem::is_directory(path))
    throw ConfigError(fmt::format("{} `{}` is a folder; give the name of a file.", option, path));
}

}  // namespace caravan::app
