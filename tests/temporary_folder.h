// A folder of a test's own, gone with the process that made it.
#pragma once

#include <unistd.h>

#include <string>

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  operator std::string() const { return path_; }
  size_t files() const;  // how many are in it

 private:
  std::string path_;
  pid_t owner_ = getpid();
};
