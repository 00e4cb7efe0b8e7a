#include "caravan/backend/kernel_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <vector>

#include "caravan/base/folders.h"
#include "caravan/base/hash.h"
#include "caravan/base/list_text.h"
#include "caravan/base/regular_file.h"
#include "caravan/base/scratch.h"

namespace caravan::backend {

namespace fs = std::filesystem;

namespace {

constexpr size_t kDigest = 32;  // hexadecimal digits
constexpr const char* kLimitVariable = "CARAVAN_CACHE_LIMIT";
constexpr time_t kDay = 86'400;  // seconds

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string wanted_folder(const std::string& given) {
  std::string out = given;
  if (out.empty()) out = environment("CARAVAN_CACHE");
  if (out.empty()) out = user_cache_folder();
  return out.empty() ? out : fs::absolute(out).lexically_normal().string();
}

bool all_of(std::string_view text, const char* letters) {
  return !text.empty() && text.find_first_not_of(letters) == text.npos;
}
bool is_number(std::string_view text) { return all_of(text, "0123456789"); }

// What kind of file a name in the folder belongs to. Files of kind `other` are not the cache's, and are left alone.
enum class Kind : uint8_t { other, kernel, text, plan, note, stray };
Kind kind_of(std::string_view name) {
  if (name.starts_with("version.") && is_number(name.substr(8))) return Kind::stray;  // written by former versions
  if (name.size() <= kDigest || !all_of(name.substr(0, kDigest), "0123456789abcdef") || name[kDigest] != '.')
    return Kind::other;
  const std::string_view rest = name.substr(kDigest + 1);
  if (rest == "so" || rest == "cubin") return Kind::kernel;
  if (rest == "note") return Kind::note;
  if (rest == "plan") return Kind::plan;
  if (rest == "c" || rest == "cu" || (rest.ends_with(".c") && is_number(rest.substr(0, rest.size() - 2))))
    return Kind::text;
  return Kind::stray;  // KEY.PROCESS.N.c, .log, .o and .so of former versions, and unfinished entries
}

struct File {
  std::string name;
  Kind kind = Kind::other;
  int64_t bytes = 0;
  time_t changed = 0;
};
std::vector<File> files_of(const std::string& folder) {
  std::vector<File> out;
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    const std::string name = i->path().filename();
    const Kind kind = kind_of(name);
    struct stat about {};
    if (kind == Kind::other || lstat(i->path().c_str(), &about) != 0 || S_ISDIR(about.st_mode)) continue;
    out.push_back({name, kind, int64_t(about.st_size), about.st_mtime});
  }
  return out;
}

// A kernel with its texts, or texts whose kernel could not be compiled or is not ready, or the plan of a program.
struct Group {
  std::vector<std::string> names;
  bool has_kernel = false, has_plan = false;
  int64_t bytes = 0;
  time_t used = 0;
};
std::map<std::string, Group> groups_of(const std::vector<File>& files) {
  std::map<std::string, Group> out;
  for (const File& file : files) {
    if (file.kind != Kind::kernel && file.kind != Kind::text && file.kind != Kind::plan) continue;
    Group& group = out[file.name.substr(0, kDigest)];
    group.names.push_back(file.name);
    group.bytes += file.bytes;
    group.used = std::max(group.used, file.changed);
    group.has_kernel = group.has_kernel || file.kind == Kind::kernel;
    group.has_plan = group.has_plan || file.kind == Kind::plan;
  }
  return out;
}

int64_t limit_from_environment() {
  constexpr int64_t kMegabyte = 1'000'000, kMost = INT64_MAX / kMegabyte;
  const std::string text = environment(kLimitVariable);
  if (text.empty()) return KernelCache::kDefaultLimit * kMegabyte;
  int64_t megabytes = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, megabytes);
  if (error != std::errc() || stop != end || megabytes < 0 || megabytes > kMost)
    throw ConfigError(
        fmt::format("{} is `{}`; it must be a whole number of megabytes, or 0 for no limit.", kLimitVariable, text));
  return megabytes * kMegabyte;
}

}  // namespace

std::string without_comments(std::string_view text) {
  std::string out;
  size_t line = 0;  // where the current line begins in `out`
  auto end_line = [&] {
    if (out.find_first_not_of(" \t", line) == std::string::npos)
      out.resize(line);
    else
      out += '\n';
    line = out.size();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      end_line();
    } else if (text[i] == '"' || text[i] == '\'') {  // a comment does not begin in a literal
      const char quote = text[i];
      out += quote;
      for (++i; i < text.size() && text[i] != quote; ++i) {
        if (text[i] == '\\' && i + 1 < text.size()) out += text[i++];
        out += text[i];
      }
      out += quote;
    } else if (text.substr(i, 2) == "/*") {
      i = std::min(text.find("*/", i + 2), text.size() - 2) + 1;
      out += ' ';
    } else if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else {
      out += text[i];
    }
  }
  end_line();
  return out;
}
std::string digest(std::string_view text) {
  const Hash128 hash = hash_bytes_128(text);
  return fmt::format("{:016x}{:016x}", hash.first, hash.second);
}

std::string sealed(std::string_view content, const std::string& key) {
  std::string out(content);
  return out + digest(out + key);
}

std::string write_new_file(const std::string& path, std::string_view content) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) return std::strerror(errno);
  while (!content.empty()) {
    const ssize_t n = ::write(file.number(), content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::strerror(errno);
    content.remove_prefix(size_t(n));
  }
  return fchmod(file.number(), 0644) == 0 ? "" : std::strerror(errno);
}

std::string replace_file(const std::string& path, std::string_view content) {
  const std::string part = path + "." + random_name() + ".part";
  std::string problem = write_new_file(part, content);
  if (problem.empty() && rename(part.c_str(), path.c_str()) != 0) problem = std::strerror(errno);
  if (!problem.empty()) unlink(part.c_str());
  return problem;
}

KernelCache::KernelCache(const std::string& given) : folder_(wanted_folder(given)), limit_(limit_from_environment()) {
  if (folder_.empty()) {
    problem_ = "neither HOME nor XDG_CACHE_HOME is an absolute path";
    return;
  }
  struct stat about {};
  exists_ = stat(folder_.c_str(), &about) == 0;
  if (!exists_) return;
  const CheckedFolder checked = check_folder(folder_);
  problem_ = checked.problem;
  if (problem_.empty()) folder_ = checked.path;
}

bool KernelCache::make() {
  if (!problem_.empty()) return false;
  if (!exists_) {
    if (const std::string why = make_private_folder(folder_); !why.empty()) {
      problem_ = fmt::format("`{}` cannot be made: {}", folder_, why);
      return false;
    }
    *this = KernelCache(folder_);
  }
  return problem_.empty() && access(folder_.c_str(), W_OK | X_OK) == 0;
}

std::optional<std::string> KernelCache::read(const std::string& key, const std::string& extension) const {
  if (!problem_.empty() || !exists_) return std::nullopt;
  RegularFile file(folder_ + "/" + key + extension, RegularFile::Links::refused);
  std::string entry;
  if (!file.ok() || !file_problem(file.status()).empty() || !file.read_rest(entry) || entry.size() < kDigest)
    return std::nullopt;
  std::string content = entry.substr(0, entry.size() - kDigest);
  if (sealed(content, key) != entry) return std::nullopt;
  futimens(file.descriptor(), nullptr);
  return content;
}

void KernelCache::write(const std::string& key, const std::string& extension, std::string_view content) const {
  replace_file(folder_ + "/" + key + extension, sealed(content, key));
}

void KernelCache::tidy(const std::string& written) const {
  static std::atomic<int> calls{0};
  if (calls++ % 64 != 0) return;
  remove_abandoned_folders(folder_, kBuildPrefix);
  const std::vector<File> files = files_of(folder_);
  const auto remove = [&](const std::string& name) { unlink((folder_ + "/" + name).c_str()); };
  const time_t now = time(nullptr);
  for (const File& file : files)
    if (file.kind == Kind::stray && now - file.changed > kDay) remove(file.name);
  const std::map<std::string, Group> groups = groups_of(files);
  std::vector<const Group*> others;  // than the one just written
  int64_t bytes = 0;
  for (const auto& [key, group] : groups) {
    // A text that the compiler refused, or did not finish, is kept for a day, so that the user can look at it.
    if (!group.has_kernel && !group.has_plan && now - group.used > kDay) {
      std::for_each(group.names.begin(), group.names.end(), remove);
      continue;
    }
    bytes += group.bytes;
    if (key != written) others.push_back(&group);
  }
  std::sort(others.begin(), others.end(), [](const Group* a, const Group* b) { return a->used < b->used; });
  for (const Group* group : others) {
    if (limit_ == 0 || bytes <= limit_) break;
    std::for_each(group->names.begin(), group->names.end(), remove);
    bytes -= group->bytes;
  }
}

KernelCache::Content KernelCache::content() const {
  Content out;
  for (const auto& [key, group] : groups_of(files_of(folder_)))
    out.kernels += group.has_kernel, out.bytes += group.bytes;
  return out;
}

KernelCache::Content KernelCache::clear() const {
  if (!folder_.empty()) remove_abandoned_folders(folder_, kBuildPrefix);
  Content out;
  for (const File& file : files_of(folder_)) {
    const std::string path = folder_ + "/" + file.name;
    if (unlink(path.c_str()) == 0)
      out.kernels += file.kind == Kind::kernel, out.bytes += file.bytes;
    else if (errno != ENOENT)
      throw BackendError(fmt::format("`{}` cannot be removed: {}.", path, std::strerror(errno)));
  }
  return out;
}

}  // namespace caravan::backend
