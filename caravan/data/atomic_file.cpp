#include "caravan/data/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "caravan/base/error.h"
#include "caravan/base/regular_file.h"

namespace caravan::data {

namespace {

// A file that is open; closed when it goes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }
  bool open() const { return number_ >= 0; }

 private:
  int number_;
};

std::string reason() { return std::strerror(errno); }

bool write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = write(file, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    content.remove_prefix(size_t(n));
  }
  return true;
}

}  // namespace

std::string read_file(const std::string& path) {
  RegularFile file(path);
  std::string out;
  if (!file.ok() || !file.read_rest(out))
    throw ConfigError(fmt::format("`{}` cannot be read: {}.", path, file.problem()));
  return out;
}

void write_file(const std::string& given, std::string_view content) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(given, error);  // a link stays, and leads to it
  const std::string path = error ? given : target.string();
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) throw ConfigError(fmt::format("`{}` is a folder.", path));
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw ConfigError(fmt::format("`{}` is not a file that can be replaced.", path));
  static std::atomic<int> count = 0;
  const std::string beside = fmt::format("{}.{}.{}.part", path, getpid(), count++);
  const Descriptor file(open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.open()) throw ConfigError(fmt::format("`{}` cannot be written: {}.", path, reason()));
  if (!write_all(file.number(), content) || fsync(file.number()) != 0 || rename(beside.c_str(), path.c_str()) != 0) {
    const std::string why = reason();
    unlink(beside.c_str());
    throw BackendError(fmt::format("`{}` could not be written: {}.", path, why));
  }
  // The rename itself must reach the disk; a file system that cannot flush a folder does so in its own time.
  const std::string folder = std::filesystem::absolute(path).parent_path();
  const Descriptor entry(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entry.open()) fsync(entry.number());
}

}  // namespace caravan::data
