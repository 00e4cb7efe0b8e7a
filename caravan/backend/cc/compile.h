// C text to machine code in this process: the system's compiler as a subprocess, with a disk cache of what it made.
//
// The key of an entry is a hash of the text without its comments, compiler, its version, flags and the processor's
// features. What is in the
// cache is loaded also while the compiler cannot be run. Where the cache cannot be written, because it is full, or may
// only be read, or is not safe (backend/kernel_cache.h), what is missing goes to a folder of this process alone.
// Nothing here prints.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "caravan/base/error.h"

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
  std::string cache;  // a folder; empty: $CARAVAN_CACHE, then $XDG_CACHE_HOME/caravan, then $HOME/.cache/caravan
  // Called when `done` of `total` texts are compiled, from 0 on, one call at a time; not at all for what is cached.
  std::function<void(int done, int total)> progress;
};

// There is no compiler of that name on the PATH, and the cache does not have the program.
class NoCompilerError : public BackendError {
 public:
  NoCompilerError(const std::string& message, bool was_here) : BackendError(message), was_here(was_here) {}
  bool was_here;  // when the cache was last written: other programs may be there
};

// The compiler refused a text.
class RefusedTextError : public BackendError {
 public:
  RefusedTextError(const std::string& message, std::string log) : BackendError(message), log(std::move(log)) {}
  std::string log;  // what the compiler said
};

class Library {
 public:
  explicit Library(const std::string& path, const std::string& known_as = "");  // a name for messages; else the path
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  void* symbol(const char* name) const;

 private:
  void* handle_ = nullptr;
  std::string path_;
};

struct Compiled {
  std::shared_ptr<Library> library;
  bool from_cache = false;
  std::vector<std::string> sources;  // paths of the texts, kept beside the entry, with the comments they first had
};

// Texts that make one library, compiled at the same time on as many processors as this process may use.
// Throws BackendError: with the command, its log and the source's path where the compiler refuses a text; naming the
// folders and the reason where none takes the result; where the compiler cannot be run.
Compiled compile(const std::vector<std::string>& texts, const CompilerOptions& options = {});

// Where the texts are kept once they are compiled: their names begin with the hash of what is compiled.
std::vector<std::string> kept_texts(const std::vector<std::string>& texts, const CompilerOptions& options);

}  // namespace caravan::cc
