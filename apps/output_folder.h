// A folder or a file that the user asked us to write.
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

class OutputFile {
 public:
  OutputFile(const std::string& path, const std::string& option);  // ConfigError, as above
  void write(const std::string& text) const { folder_.write(name_, text); }

 private:
  OutputFolder folder_;
  std::string name_;
};

}  // namespace caravan::app
