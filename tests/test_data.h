// Data sets that only tests read; they may be absent.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace caravan {

// The path of a file below the folder that CARAVAN_TEST_DATA names, if it is there.
inline std::optional<std::string> test_data(const std::string& file) {
  const char* folder = std::getenv("CARAVAN_TEST_DATA");
  if (!folder) return std::nullopt;
  const std::string path = std::string(folder) + "/" + file;
  return std::filesystem::exists(path) ? std::optional(path) : std::nullopt;
}

}  // namespace caravan
