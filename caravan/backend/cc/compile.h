// C text to machine code in this process: the system's compiler as a subprocess, with a disk cache of what it made.
//
// The key of an entry is a hash of text, compiler, its version, flags and the processor's features. An entry appears by
// atomic rename and carries a checksum; one that is damaged is made again. Nothing here prints.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace caravan::cc {

struct CompilerOptions {
  std::string compiler = "cc";
  std::vector<std::string> flags = {"-std=gnu99", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-fPIC", "-shared"};
  std::string cache;  // a folder; empty: $CARAVAN_CACHE, then $XDG_CACHE_HOME/caravan, then ~/.cache/caravan
};

class Library {
 public:
  explicit Library(const std::string& path);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  void* symbol(const char* name) const;

 private:
  void* handle_ = nullptr;
};

struct Compiled {
  std::shared_ptr<Library> library;
  bool from_cache = false;
  std::string source_path;  // the text, kept beside the entry
};

// Throws BackendError with the command, its log and the source's path.
Compiled compile(const std::string& source, const CompilerOptions& options = {});

}  // namespace caravan::cc
