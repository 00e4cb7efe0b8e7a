// Reading a file that must be a regular one, whatever has its name.
//
//     const RegularFile file(path);
//     if (!file.problem().empty()) refuse(path + " cannot be read: " + file.problem());   // "it is a FIFO, ..."
//
// Opening never waits: a FIFO that nobody writes to, which open(2) would wait for, is a problem told at once, and so is
// a folder, a device or a socket. What is asked of status() is true of the file that is read, even when its name is
// given to another one meanwhile.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

namespace caravan {

class RegularFile {
 public:
  enum class Links : uint8_t { followed, refused };  // of the last part of the path
  explicit RegularFile(const std::string& path, Links links = Links::followed);
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;
  ~RegularFile();

  bool ok() const { return descriptor_ >= 0; }
  const std::string& problem() const { return problem_; }  // a clause; empty: none
  int descriptor() const { return descriptor_; }           // at the file's beginning
  const struct stat& status() const { return status_; }    // size, owner, mode

  // Everything from where the descriptor is. False, with a problem, where the disk fails.
  bool read_rest(std::string& out);

 private:
  int descriptor_ = -1;
  struct stat status_ {};
  std::string problem_;
};

}  // namespace caravan
