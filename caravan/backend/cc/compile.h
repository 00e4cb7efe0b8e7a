// C text to machine code in this process: the system's compiler as a subprocess, with a disk cache of what it made.
//
// The key of an entry is a hash of text, compiler, its version, flags and the processor's features. An entry is one
// file that appears by atomic rename and ends with its checksum; one that is damaged is made again. A cache that cannot
// be written is still read, and what is missing goes to a folder of this process alone. Nothing here prints.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace caravan::cc {

struct CompilerOptions {
  std::string compiler = "cc";
  // No contraction and no reassociation, so that a value has the same bits wherever it is computed. Without the SLP
  // vectoriser: GCC 12's takes (double)(float)x for x (y[0] = (double)(float)x[0]; y[1] = (double)(float)x[1]; at -O3).
  std::vector<std::string> flags = {"-std=gnu99",
                                    "-O3",
                                    "-march=native",
                                    "-ffp-contract=off",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fno-tree-slp-vectorize",
                                    "-fwrapv",
                                    "-fPIC"};
  std::string cache;  // a folder; empty: $CARAVAN_CACHE, then $XDG_CACHE_HOME/caravan, then ~/.cache/caravan
  // Called when `done` of `total` texts are compiled, from 0 on, one call at a time; not at all for what is cached.
  std::function<void(int done, int total)> progress;
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
  std::vector<std::string> sources;  // paths of the texts, kept beside the entry
};

// Texts that make one library, compiled at the same time on as many processors as there are.
// Throws BackendError with the command, its log and the source's path.
Compiled compile(const std::vector<std::string>& texts, const CompilerOptions& options = {});

}  // namespace caravan::cc
