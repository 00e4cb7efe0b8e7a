// Work in progress on disk: under names that nobody can guess or have, and known to be in use while its process lives.
//
// Two processes may have the same number (in two containers), so no name is made of it. That a process lives is told by
// a lock that it holds and that the system releases when it ends, however it ends.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace caravan {

// A number of an open file; closed when it goes.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

std::string random_name();  // 16 hexadecimal digits of the system's random bits

// A new file beside `path`, called `path`.RANDOM.part, locked by this process. Not open: errno says why.
struct ScratchFile {
  Descriptor file;
  std::string path;
};
ScratchFile make_scratch_file(const std::string& path);
void remove_abandoned_files(const std::string& path);  // those of processes that ended; of this user alone

// A new folder `within`/PREFIXxxxxxx of mode 0700; it goes with all that is in it.
class ScratchFolder {
 public:
  ScratchFolder(const std::string& within, const std::string& prefix);  // BackendError where it cannot be made
  // Likewise; null where it cannot be made, and errno says why.
  static std::unique_ptr<ScratchFolder> make(const std::string& within, const std::string& prefix);
  ~ScratchFolder();  // not in a child of fork()
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  ScratchFolder() = default;
  bool begin(const std::string& within, const std::string& prefix);
  std::string path_;
  std::optional<Descriptor> lock_;
  int owner_ = 0;
};
// Likewise; where a file system has no locks, those that are a day old. Returns how many there were.
int remove_abandoned_folders(const std::string& within, const std::string& prefix);

}  // namespace caravan
