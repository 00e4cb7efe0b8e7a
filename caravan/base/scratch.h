// Temporary files and folders with random names, which are known to be in use while their process lives.
//
// Two processes may have the same number (in two containers), so names do not contain it. A process that lives holds a
// lock, which the system releases when the process ends in any way.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace caravan {

// Owns a file descriptor, and closes it when it is destroyed.
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

// A new file `path`.RANDOM.part, locked by this process. If it could not be made, `file` is not open and errno says
// why.
struct ScratchFile {
  Descriptor file;
  std::string path;
};
ScratchFile make_scratch_file(const std::string& path);
void remove_abandoned_files(const std::string& path);  // scratch files of this user whose processes have ended

// A new folder `within`/PREFIXxxxxxx of mode 0700. The destructor removes it with its content.
class ScratchFolder {
 public:
  ScratchFolder(const std::string& within, const std::string& prefix);  // BackendError where it cannot be made
  // The same, but returns null if it cannot be made; errno says why.
  static std::unique_ptr<ScratchFolder> make(const std::string& within, const std::string& prefix);
  ~ScratchFolder();  // does nothing in a child of fork()
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
// Removes the scratch folders of this user whose processes have ended; on a file system without locks, those that are a
// day old. Returns how many it removed.
int remove_abandoned_folders(const std::string& within, const std::string& prefix);

}  // namespace caravan
