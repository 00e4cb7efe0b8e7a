// Reads a file, and refuses everything that is not a regular file.
//
//     const RegularFile file(path);
//     if (!file.problem().empty()) refuse(path + " cannot be read: " + file.problem());   // "it is a FIFO, ..."
//
// Opening never blocks: a FIFO without a writer, for which open(2) would wait, is reported as a problem at once, and so
// is a folder, a device or a socket. status() describes the file that is read, even if another file gets its name
// meanwhile.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

namespace caravan {

class RegularFile {
 public:
  enum class Links : uint8_t { followed, refused };  // of the last component of the path
  explicit RegularFile(const std::string& path, Links links = Links::followed);
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;
  ~RegularFile();

  bool ok() const { return descriptor_ >= 0; }
  const std::string& problem() const { return problem_; }  // a clause for a message; empty if there is no problem
  int descriptor() const { return descriptor_; }           // positioned at the beginning of the file
  const struct stat& status() const { return status_; }    // size, owner, mode

  // Reads everything from the position of the descriptor on. Returns false, and sets the problem, if reading fails.
  bool read_rest(std::string& out);

 private:
  int descriptor_ = -1;
  struct stat status_ {};
  std::string problem_;
};

}  // namespace caravan
