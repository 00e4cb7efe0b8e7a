#include "caravan/base/scratch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "caravan/base/error.h"

namespace caravan {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLock = "lock";          // of a scratch folder, inside it
constexpr const char* kPart = ".part";         // the end of a scratch file's name
constexpr size_t kLongestStart = 200;          // bytes of a name before RANDOM.part; a name has at most 255
constexpr time_t kMinute = 60, kDay = 86'400;  // seconds

bool lock(int file) { return flock(file, LOCK_EX | LOCK_NB) == 0; }

// Has the process that made this file ended? Not if another process holds its lock; yes if the lock can be taken. If
// the file system has no locks, the age decides.
bool is_abandoned(int file, time_t age) {
  if (lock(file)) return true;
  return errno != EWOULDBLOCK && age > kDay;
}

// The age of a file of the wanted kind that belongs to this user; `none` for other kinds and other users' files.
struct Age {
  bool none = true;
  time_t seconds = 0;
};
Age age_of(const struct stat& about, mode_t wanted) {
  if ((about.st_mode & S_IFMT) != wanted || about.st_uid != geteuid()) return {};
  return {false, time(nullptr) - about.st_mtime};
}

std::string start_of(const std::string& file) { return file.substr(0, kLongestStart) + "."; }

bool is_random_name(std::string_view text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

std::string random_name() {
  uint64_t bits = 0;
  while (getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    if (errno != EINTR) throw BackendError(fmt::format("the system gives no random bits: {}.", std::strerror(errno)));
  }
  return fmt::format("{:016x}", bits);
}

ScratchFile make_scratch_file(const std::string& path) {
  const fs::path whole(path);
  const std::string beside = (whole.parent_path() / (start_of(whole.filename()) + random_name() + kPart)).string();
  ScratchFile out{Descriptor(open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)), beside};
  if (out.file.is_open()) lock(out.file.number());
  return out;
}

void remove_abandoned_files(const std::string& path) {
  const fs::path whole(path);
  const std::string start = start_of(whole.filename());
  std::error_code error;
  for (fs::directory_iterator i("." / whole.parent_path(), error), end; !error && i != end; i.increment(error)) {
    const std::string name = i->path().filename();
    if (!name.starts_with(start) || !name.ends_with(kPart) ||
        !is_random_name(std::string_view(name).substr(start.size(), name.size() - start.size() - strlen(kPart))))
      continue;
    const Descriptor file(open(i->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat about {};
    if (!file.is_open() || fstat(file.number(), &about) != 0) continue;
    // A file that is just being made is not locked yet, so it must be a minute old.
    if (const Age age = age_of(about, S_IFREG);
        !age.none && age.seconds > kMinute && is_abandoned(file.number(), age.seconds))
      unlink(i->path().c_str());
  }
}

bool ScratchFolder::begin(const std::string& within, const std::string& prefix) {
  std::string path = within + "/" + prefix + "XXXXXX";
  if (!mkdtemp(path.data())) return false;
  path_ = path, owner_ = getpid();
  // The lock file gets its final name only when it is locked, so that no other process sees it unlocked.
  const std::string passing = path_ + "/" + random_name(), final = path_ + "/" + kLock;
  lock_.emplace(open(passing.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (lock_->is_open() && (!lock(lock_->number()) || rename(passing.c_str(), final.c_str()) != 0))
    unlink(passing.c_str());
  return true;
}
ScratchFolder::ScratchFolder(const std::string& within, const std::string& prefix) {
  if (!begin(within, prefix))
    throw BackendError(fmt::format("no folder can be made in `{}`: {}.", within, std::strerror(errno)));
}
std::unique_ptr<ScratchFolder> ScratchFolder::make(const std::string& within, const std::string& prefix) {
  std::unique_ptr<ScratchFolder> out(new ScratchFolder);
  return out->begin(within, prefix) ? std::move(out) : nullptr;
}
ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty() && getpid() == owner_) fs::remove_all(path_, ignored);
}

int remove_abandoned_folders(const std::string& within, const std::string& prefix) {
  int removed = 0;
  std::error_code error;
  for (fs::directory_iterator i(within, error), end; !error && i != end; i.increment(error)) {
    const fs::path& path = i->path();
    struct stat about {};
    if (path.filename().string().size() != prefix.size() + 6 || !path.filename().string().starts_with(prefix) ||
        lstat(path.c_str(), &about) != 0)
      continue;
    const Age age = age_of(about, S_IFDIR);
    if (age.none) continue;
    const Descriptor file(open((path / kLock).c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.is_open() ? !is_abandoned(file.number(), age.seconds) : age.seconds <= kDay) continue;
    std::error_code gone;
    fs::remove_all(path, gone);
    ++removed;
  }
  return removed;
}

}  // namespace caravan
