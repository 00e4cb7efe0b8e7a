// Compiles C text and loads the machine code into this process: runs the system's compiler as a subprocess, and keeps
// its output in a cache on disk.
//
// The key of an entry is a hash of the text without comments, the compiler, its version, the flags and the processor's
// features. Cached code is loaded even if the compiler cannot be run. If the cache cannot be written, because it is
// full, read-only or not safe (backend/kernel_cache.h), newly compiled code goes to a folder of this process alone.
// Nothing here prints.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caravan/backend/cc/run_command.h"
#include "caravan/base/error.h"

namespace caravan::cc {

struct CompilerOptions {
  std::string compiler = "cc";
  // No contraction and no reassociation, so that a value has the same bits wherever it is computed. No SLP vectoriser,
  // because that of GCC 12 drops the rounding of (double)(float)x at -O3. It does so in
  //     y[0] = (double)(float)x[0]; y[1] = (double)(float)x[1];
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
  // Called when `done` of `total` texts are compiled, first with done = 0, never by two threads at once. Not called for
  // cached code.
  std::function<void(int done, int total)> progress;
};

// There is no compiler of that name on the PATH, and the cache does not have the program.
class NoCompilerError : public BackendError {
 public:
  NoCompilerError(const std::string& message, bool was_here) : BackendError(message), was_here(was_here) {}
  bool was_here;  // the compiler was there when the cache was last written, so that other programs may be cached
};

class Library {
 public:
  // `known_as` is a name for messages instead of the path.
  explicit Library(const std::string& path, const std::string& known_as = "");
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
  std::string key;  // of the entry
  bool from_cache = false;
  // Paths of the texts, which are kept beside the entry with the comments of the program that first compiled them.
  std::vector<std::string> sources;
};

enum class Keep : uint8_t { in_cache, nowhere };  // where compiled code is kept after it was loaded

// Compiles texts to one library, in parallel on the processors that this process may use and in the order given. Throws
// backend::RefusedTextError if the compiler refuses a text, and BackendError if no folder can take the result (with the
// folders and the reasons) or if the compiler cannot be run. What is kept nowhere leaves no file behind. The commands
// belong to `group`, if one is given.
Compiled compile(const std::vector<std::string>& texts, const CompilerOptions& options = {}, Keep keep = Keep::in_cache,
                 CommandGroup* group = nullptr);
// Throws what `compile` throws where the compiler cannot be run, unless it could when the cache was last written: then
// programs may be in the cache.
void check_can_be_run(const CompilerOptions& options);
std::optional<Compiled> find_compiled(const std::vector<std::string>& texts, const CompilerOptions& options);

// Inside: the key of an entry of the cache: a hash of the content, the compiler, its version, its flags and the
// processor.
std::string key_of(const std::string& content, const CompilerOptions& options);
// Inside: the compiled code of an entry that was made of so many texts; nothing if there is none that can be loaded.
std::optional<Compiled> find_entry(const std::string& key, size_t texts, const CompilerOptions& options);

// The paths under which the texts are kept once they are compiled. The file names begin with the key of the entry.
std::vector<std::string> kept_texts(const std::vector<std::string>& texts, const CompilerOptions& options);
// Writes the texts there before they are compiled, or to the folder of this process if the cache cannot be written.
// Returns where they are; nothing if no folder can take them. If they are never compiled, the cache keeps them for a
// day.
std::vector<std::string> keep_texts(const std::vector<std::string>& texts, const CompilerOptions& options);

}  // namespace caravan::cc
