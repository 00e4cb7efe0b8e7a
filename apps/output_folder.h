// A folder or a file that the user asked us to write.
#pragma once

#include <string>
#include <vector>

namespace caravan::app {

class OutputFolder {
 public:
  // Makes it. Throws ConfigError naming the option where it cannot be made or written.
  OutputFolder(const std::string& path, const std::string& option);
  // The file appears complete or not at all. BackendError where the disk does not take it.
  void write(const std::string& file, const std::string& text) const;

 private:
  std::string path_;
};

// ConfigError where two of these are one file; those that are empty do not count.
void check_distinct(const std::vector<std::string>& paths);

class OutputFile {
 public:
  OutputFile(const std::string& path, const std::string& option);  // ConfigError, as above
  void write(const std::string& text) const { folder_.write(name_, text); }
  bool regular() const { return regular_; }  // otherwise there is a terminal, a pipe or a device of that name

 private:
  OutputFolder folder_;
  std::string name_;
  bool regular_ = true;
};

}  // namespace caravan::app
