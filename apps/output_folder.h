// A folder that the user asked us to write into.
#pragma once

#include <string>

namespace caravan::app {

class OutputFolder {
 public:
  // Makes it. Throws ConfigError naming the option where it cannot be made or written.
  OutputFolder(const std::string& path, const std::string& option);
  void write(const std::string& file, const std::string& text) const;  // BackendError where the disk does not take it

 private:
  std::string path_;
};

}  // namespace caravan::app
