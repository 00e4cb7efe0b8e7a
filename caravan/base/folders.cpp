#include "caravan/base/folders.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace caravan {

namespace fs = std::filesystem;

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string user_folder(const char* variable, const char* in_home) {
  if (const fs::path set = environment(variable); set.is_absolute()) return set / "caravan";
  if (const fs::path home = environment("HOME"); home.is_absolute()) return home / in_home / "caravan";
  return "";
}

bool is_trusted(uid_t owner) { return owner == geteuid() || owner == 0; }

// In a user namespace (a rootless container), all users from outside of it, even the real root, appear as the one user
// `nobody`. Then the owner of `/` is a user id that the namespace does not map.
bool is_outside_the_namespace(uid_t owner) {
  std::ifstream map("/proc/self/uid_map");
  bool any = false;
  for (uint64_t inside = 0, outside = 0, count = 0; map >> inside >> outside >> count; any = true)
    if (owner >= inside && owner - inside < count) return false;
  return any;
}

// Many systems give each user a private group with the same number, and make the user's files writable for that group.
bool is_own_group(gid_t group) { return group == geteuid() && group != 0; }

std::string mode_text(const struct stat& about) { return fmt::format("{:04o}", about.st_mode & 07777); }

// The problem of a parent folder of the folder that is checked.
std::string way_problem(const fs::path& path) {
  struct stat about {};
  if (lstat(path.c_str(), &about) != 0)
    return fmt::format("`{}` cannot be looked at: {}", path.string(), std::strerror(errno));
  if (!is_trusted(about.st_uid) && !is_outside_the_namespace(about.st_uid))
    return fmt::format("`{}`, which leads to it, belongs to another user (number {})", path.string(), about.st_uid);
  const bool writable = (about.st_mode & S_IWOTH) || ((about.st_mode & S_IWGRP) && !is_own_group(about.st_gid));
  if (writable && !(about.st_mode & S_ISVTX))
    return fmt::format("`{}`, which leads to it, can be written by others (mode {})", path.string(), mode_text(about));
  return "";
}

}  // namespace

std::string user_cache_folder() { return user_folder("XDG_CACHE_HOME", ".cache"); }
std::string user_configuration_folder() { return user_folder("XDG_CONFIG_HOME", ".config"); }

std::string temporary_folder_problem() {
  const std::string set = environment("TMPDIR");
  if (set.empty()) return "";
  std::error_code error;
  if (!fs::is_directory(set, error)) return fmt::format("TMPDIR is `{}`, which is not a folder", set);
  if (access(set.c_str(), W_OK | X_OK) != 0)
    return fmt::format("TMPDIR is `{}`, which cannot be written: {}", set, std::strerror(errno));
  return "";
}
std::string temporary_folder() {
  const std::string set = environment("TMPDIR");
  return set.empty() || !temporary_folder_problem().empty() ? "/tmp" : set;
}

std::string make_private_folder(const std::string& path) {
  std::error_code error;
  fs::path so_far;
  for (const fs::path& part : fs::absolute(path, error)) {
    so_far /= part;
    if (mkdir(so_far.c_str(), 0700) == 0 || fs::is_directory(so_far, error)) continue;
    return std::strerror(errno == EEXIST ? ENOTDIR : errno);
  }
  return "";
}

CheckedFolder check_folder(const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::canonical(path, error);
  struct stat about {};
  if (error || lstat(folder.c_str(), &about) != 0)
    return {"", fmt::format("`{}` cannot be looked at: {}", path, error ? error.message() : std::strerror(errno))};
  CheckedFolder out{folder, ""};
  if (!S_ISDIR(about.st_mode))
    out.problem = fmt::format("`{}` is not a folder", path);
  else if (!is_trusted(about.st_uid))
    out.problem = fmt::format("`{}` belongs to another user (number {})", path, about.st_uid);
  else if (about.st_mode & (S_IWGRP | S_IWOTH))
    out.problem =
        fmt::format("`{0}` can be written by others (mode {1}); `chmod 700 {0}` mends it", path, mode_text(about));
  for (fs::path at = folder; out.problem.empty() && at != at.root_path();) {
    at = at.parent_path();
    if (const std::string problem = way_problem(at); !problem.empty())
      out.problem = fmt::format("`{}` is not safe: {}", path, problem);
  }
  return out;
}

std::string file_problem(const struct stat& about) {
  if (!S_ISREG(about.st_mode)) return "is not a file";
  if (!is_trusted(about.st_uid)) return fmt::format("belongs to another user (number {})", about.st_uid);
  if (about.st_mode & (S_IWGRP | S_IWOTH)) return fmt::format("can be written by others (mode {})", mode_text(about));
  return "";
}

}  // namespace caravan
