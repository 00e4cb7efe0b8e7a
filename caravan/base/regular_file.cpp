#include "caravan/base/regular_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace caravan {

namespace {

const char* kind(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a link";
  return "a device";
}
std::string not_regular(mode_t mode) { return std::string("it is ") + kind(mode) + ", not a regular file"; }

}  // namespace

RegularFile::RegularFile(const std::string& path, Links links) {
  const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (links == Links::refused ? O_NOFOLLOW : 0);
  do descriptor_ = open(path.c_str(), flags);
  while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) {
    const int why = errno;
    // open(2) fails for a socket or a refused link with a misleading error, so these are recognised here.
    const bool there = lstat(path.c_str(), &status_) == 0;
    const bool other = there && (S_ISSOCK(status_.st_mode) || (S_ISLNK(status_.st_mode) && links == Links::refused));
    problem_ = other ? not_regular(status_.st_mode) : std::strerror(why);
    return;
  }
  if (fstat(descriptor_, &status_) != 0)
    problem_ = std::strerror(errno);
  else if (!S_ISREG(status_.st_mode))
    problem_ = not_regular(status_.st_mode);
  if (problem_.empty()) return;
  close(descriptor_);
  descriptor_ = -1;
}

RegularFile::~RegularFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool RegularFile::read_rest(std::string& out) {
  constexpr size_t kLeast = 4096;  // bytes to read at a time if the size is not known, as in /proc
  size_t filled = 0;
  // One byte more than the size, so that the end is seen in the first round.
  out.assign(size_t(status_.st_size) + 1, '\0');
  while (true) {
    if (filled == out.size()) out.resize(out.size() + std::max(kLeast, out.size() / 2));
    const ssize_t n = ::read(descriptor_, out.data() + filled, out.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      problem_ = std::strerror(errno);
      return false;
    }
    if (n == 0) break;
    filled += size_t(n);
  }
  out.resize(filled);
  return true;
}

}  // namespace caravan
