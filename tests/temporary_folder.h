// A folder of a test's own, gone with the process that made it.
#pragma once

#include <unistd.h>

#include <string>

struct TemporaryFolder {
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  operator std::string() const { return path; }

  size_t files() const;  // how many are in it

  std::string path;

 private:
  pid_t owner_ = getpid();
};
