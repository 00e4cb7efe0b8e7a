#include "apps/output_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "caravan/base/error.h"
#include "caravan/data/atomic_file.h"

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
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) {
    data::write_file(path, text);
    return;
  }
  std::ofstream out(path, std::ios::binary);  // a terminal, a pipe: nothing to put in its place
  out << text;
  if (!out.flush()) throw BackendError(fmt::format("{} could not be written.", path));
}

void check_distinct(const std::vector<std::string>& paths) {
  std::set<std::filesystem::path> places;
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    std::error_code error;
    const auto place = std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
    if (!places.insert(error ? std::filesystem::path(path) : place).second)
      throw ConfigError(fmt::format("`{}` cannot be two files at once; give each one a name of its own.", path));
  }
}

OutputFile::OutputFile(const std::string& path, const std::string& option)
    : folder_(std::filesystem::path("." / std::filesystem::path(path)).parent_path(), option),
      name_(std::filesystem::path(path).filename()) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (name_.empty() || std::filesystem::is_directory(status))
    throw ConfigError(fmt::format("{} `{}` is a folder; give the name of a file.", option, path));
  if (error && status.type() == std::filesystem::file_type::none)
    throw ConfigError(fmt::format("{} `{}` cannot be a file: {}.", option, path, error.message()));
  regular_ = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
}

}  // namespace caravan::app
