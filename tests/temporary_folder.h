// A folder of a test's own, gone when the test ends.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>

struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern = testing::TempDir() + "caravan.XXXXXX";
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    path = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path); }

  size_t files() const {
    return size_t(std::distance(std::filesystem::directory_iterator(path), std::filesystem::directory_iterator()));
  }
  std::string path;
};
