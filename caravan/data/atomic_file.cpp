#include "caravan/data/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>

#include "caravan/base/error.h"
#include "caravan/base/regular_file.h"
#include "caravan/base/scratch.h"

namespace caravan::data {

namespace fs = std::filesystem;

namespace {

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

// Where a file was to be made: the disk's or the system's trouble, rather than a folder that does not take one.
bool is_of_the_machine(int error) {
  for (const int one : {ENOSPC, EDQUOT, EIO, EMFILE, ENFILE, ENOMEM})
    if (error == one) return true;
  return false;
}

// A link in a folder that everybody may write is followed where it is ours, root's or the folder's owner's: another's
// would choose the file that is replaced. (So does Linux with fs.protected_symlinks, for those who open a file by it.)
bool may_follow(const fs::path& link) {
  struct stat of_link {
  }, of_folder{};
  const fs::path folder = "." / link.parent_path();
  if (lstat(link.c_str(), &of_link) != 0 || stat(folder.c_str(), &of_folder) != 0) return true;  // then open tells
  return !(of_folder.st_mode & S_IWOTH) || of_link.st_uid == geteuid() || of_link.st_uid == 0 ||
         of_link.st_uid == of_folder.st_uid;
}

// The file that a path leads to, which need not be there yet.
std::string behind_links(const std::string& given) {
  constexpr int kMost = 40;  // links in a row, as for the kernel
  fs::path path = given;
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(path, error)); ++links) {
    if (links == kMost) throw ConfigError(fmt::format("`{}` cannot be written: its links lead in a circle.", given));
    if (!may_follow(path))
      throw ConfigError(fmt::format(
          "`{}` is a link that another user has put into a folder which everybody may write; it is not followed.",
          path.string()));
    const fs::path next = fs::read_symlink(path, error);
    if (error) throw ConfigError(fmt::format("`{}` cannot be written: {}.", given, error.message()));
    path = path.parent_path() / next;  // an absolute one replaces it
  }
  return path;
}

// What runs that were killed left beside a file is removed before its first save of this process.
void clean_once(const std::string& path) {
  static std::mutex mutex;
  static std::set<fs::path> cleaned;
  std::error_code error;
  {
    const std::lock_guard lock(mutex);
    if (!cleaned.insert(fs::absolute(path, error)).second) return;
  }
  remove_abandoned_files(path);
}

// The file that is to be replaced or made.
std::string target(const std::string& given) {
  std::string path = behind_links(given);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none)
    throw ConfigError(fmt::format("`{}` cannot be written: {}.", path, error.message()));
  if (fs::is_directory(status)) throw ConfigError(fmt::format("`{}` is a folder.", path));
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw ConfigError(fmt::format("`{}` is not a file that can be replaced.", path));
  return path;
}

ScratchFile part_of(const std::string& path) {
  ScratchFile part = make_scratch_file(path);
  if (part.file.is_open()) return part;
  const bool machine = is_of_the_machine(errno);
  const std::string message = fmt::format("`{}` cannot be written: {}.", path, reason());
  if (machine) throw BackendError(message);
  throw ConfigError(message);
}

}  // namespace

void no_memory_for_file(const std::string& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  throw MemoryError(error ? fmt::format("there is not enough memory to read `{}`.", path)
                          : fmt::format("there is not enough memory to read `{}`, a file of {} bytes.", path, bytes));
}

std::string read_file(const std::string& path) {
  return naming_memory(path, [&] {
    RegularFile file(path);
    std::string out;
    if (!file.ok() || !file.read_rest(out))
      throw ConfigError(fmt::format("`{}` cannot be read: {}.", path, file.problem()));
    return out;
  });
}

void write_file(const std::string& given, std::string_view content) {
  const std::string path = target(given);
  clean_once(path);
  const ScratchFile part = part_of(path);
  const int file = part.file.number();
  if (!write_all(file, content) || fsync(file) != 0 || rename(part.path.c_str(), path.c_str()) != 0) {
    const std::string why = reason();
    unlink(part.path.c_str());
    throw BackendError(fmt::format("`{}` could not be written: {}.", path, why));
  }
  // The rename itself must reach the disk; a file system that cannot flush a folder does so in its own time.
  const Descriptor folder(open(fs::absolute(path).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open()) fsync(folder.number());
}

void try_file(const std::string& given, uint64_t bytes) {
  const std::string path = target(given);
  const ScratchFile part = part_of(path);
  const bool refused = bytes > 0 && fallocate(part.file.number(), 0, 0, off_t(bytes)) != 0 &&
                       (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO);
  const std::string why = reason();
  unlink(part.path.c_str());
  if (refused) throw BackendError(fmt::format("`{}` cannot be written: {} ({} bytes are needed).", path, why, bytes));
}

}  // namespace caravan::data
