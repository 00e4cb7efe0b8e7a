#include "caravan/backend/cc/compile.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "caravan/backend/cc/find_compiler.h"
#include "caravan/backend/cc/run_command.h"
#include "caravan/backend/kernel_cache.h"
#include "caravan/backend/own_folder.h"
#include "caravan/backend/refused_text.h"
#include "caravan/base/list_text.h"
#include "caravan/base/parallel.h"
#include "caravan/base/processors.h"
#include "caravan/base/regular_file.h"
#include "caravan/base/scratch.h"

namespace caravan::cc {

namespace fs = std::filesystem;
using backend::digest;
using backend::KernelCache;

namespace {

constexpr const char* kCode = ".so";    // extension of cache entries with machine code,
constexpr const char* kNote = ".note";  // and of those with the output of a compiler's --version

// The output of the compiler's `--version`. It is asked once in each process, so that another compiler of the same name
// is noticed. If it cannot be run, this is what it said when the cache was last written, so that cached code is still
// found.
struct Version {
  std::string text;
  std::string problem;  // why the compiler could not be run; empty if it was
  bool missing = false;
};
std::string note_key(const std::string& compiler) { return digest("version of " + compiler); }
Version version_of(const std::string& compiler, const KernelCache& cache) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  if (const auto at = known.find(compiler); at != known.end()) return {at->second, "", false};
  const CommandResult said = run_command({compiler, "--version"});
  if (said.succeeded()) return {known[compiler] = said.output, "", false};
  const bool missing = path_of(compiler).empty();
  const std::string problem =
      missing ? "there is no `" + compiler + "` on the PATH; install one (apt-get install gcc)"
              : "the C compiler `" + compiler + "` cannot be run (`" + compiler + " --version`: " + said.ending() + ")";
  return {cache.read(note_key(compiler), kNote).value_or(""), problem, missing};
}

}  // namespace

Library::Library(const std::string& path, const std::string& known_as)
    : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)), path_(known_as.empty() ? path : known_as) {
  if (!handle_) throw BackendError("compiled code could not be loaded: " + std::string(dlerror()) + ".");
}
Library::~Library() { dlclose(handle_); }
void* Library::symbol(const char* name) const {
  void* found = dlsym(handle_, name);
  if (!found) throw BackendError("compiled code has no `" + std::string(name) + "`; remove `" + path_ + "`.");
  return found;
}

namespace {

// Thrown if a folder cannot take the compiled code. Then another folder is tried.
struct Unusable {
  std::string why;
};

// Why a folder cannot take a file of the size of a small library; empty if it can.
std::string room_problem(const std::string& folder) {
  constexpr size_t kLeast = 1 << 20;  // bytes
  const std::string path = folder + "/" + random_name();
  const std::string why = backend::write_new_file(path, std::string(kLeast, '\1'));
  unlink(path.c_str());
  return why;
}

// One build of a library, in a scratch folder next to where its entry will be.
class Build {
 public:
  Build(const std::vector<std::string>& texts, const CompilerOptions& options, std::string place, std::string key,
        CommandGroup* group)
      : texts_(texts),
        options_(options),
        place_(std::move(place)),
        key_(std::move(key)),
        group_(group),
        scratch_(make_scratch()) {}

  // Throws Unusable, or BackendError where the compiler refuses the text.
  std::shared_ptr<Library> run(Keep keep) {
    for (size_t t = 0; t < texts_.size(); ++t)
      if (const std::string why = backend::write_new_file(text(t), texts_[t]); !why.empty()) throw Unusable{why};
    if (texts_.size() == 1) {
      tell(0);
      call({text(0), "-shared", "-o", made(".so"), "-lm"}, 0);
      tell(1);
    } else {
      compile_all();
      std::vector<std::string> link;
      for (size_t t = 0; t < texts_.size(); ++t) link.push_back(object(t));
      link.insert(link.end(), {"-shared", "-o", made(".so"), "-lm"});
      call(link, std::nullopt);
    }
    RegularFile library(made(".so"));
    std::string bytes;
    if (!library.ok() || !library.read_rest(bytes)) throw Unusable{library.problem()};
    if (bytes.empty()) throw Unusable{"the compiler left an empty file"};
    const std::string entry = made(".entry");
    if (const std::string why = backend::write_new_file(entry, backend::sealed(bytes, key_)); !why.empty())
      throw Unusable{why};
    const std::string kept = place_ + "/" + key_ + kCode;
    std::shared_ptr<Library> loaded;
    try {
      loaded = std::make_shared<Library>(entry, kept);
    } catch (const BackendError& error) {  // for example, the file system is mounted noexec
      throw Unusable{error.what()};
    }
    if (keep == Keep::nowhere) return loaded;
    for (size_t t = 0; t < texts_.size(); ++t) keep_text(t);
    rename(entry.c_str(), kept.c_str());
    return loaded;
  }

  static std::string kept_text(const std::string& folder, const std::string& key, size_t t, size_t texts) {
    return folder + "/" + key + (texts == 1 ? "" : "." + std::to_string(t)) + ".c";
  }

 private:
  std::unique_ptr<ScratchFolder> make_scratch() const {
    auto out = ScratchFolder::make(place_, backend::kBuildPrefix);
    if (!out) throw Unusable{std::strerror(errno)};
    return out;
  }
  const std::string& folder() const { return scratch_->path(); }
  std::string text(size_t t) const { return kept_text(folder(), key_, t, texts_.size()); }
  std::string made(const std::string& extension) const { return folder() + "/" + key_ + extension; }
  std::string object(size_t t) const { return made("." + std::to_string(t) + ".o"); }
  std::string keep_text(size_t t) const {
    const std::string kept = kept_text(place_, key_, t, texts_.size());
    rename(text(t).c_str(), kept.c_str());
    return kept;
  }

  // Calls the compiler for one of the texts, or for all of them together.
  void call(const std::vector<std::string>& words, std::optional<size_t> of) const {
    std::vector<std::string> command = {options_.compiler};
    command.insert(command.end(), options_.flags.begin(), options_.flags.end());
    // So that debug information names the path where the text is kept.
    command.push_back("-ffile-prefix-map=" + folder() + "=" + place_);
    command.insert(command.end(), words.begin(), words.end());
    const CommandResult result = run_command(command, folder(), group_);
    if (result.succeeded()) return;
    if (group_ && group_->is_ended()) throw BackendError("the compilation was ended.");
    if (result.error != 0)
      throw BackendError("the C compiler `" + options_.compiler + "` cannot be run: " + result.ending() + ".");
    for (const int full : {ENOSPC, EDQUOT, EFBIG})
      if (result.output.find(std::strerror(full)) != std::string::npos) throw Unusable{std::strerror(full)};
    if (const std::string why = room_problem(folder()); !why.empty()) throw Unusable{why};
    throw backend::RefusedTextError("the C compiler failed (" + result.ending() + ").", joined(command, " "),
                                    of ? keep_text(*of) : folder(), result.output);
  }

  void tell(int done) const {
    if (options_.progress) options_.progress(done, int(texts_.size()));
  }
  void compile_all() {
    std::mutex telling;
    int done = 0;
    tell(0);
    in_parallel(int64_t(texts_.size()), processors().usable(), [&](int64_t n) {
      call({text(size_t(n)), "-c", "-o", object(size_t(n))}, size_t(n));
      const std::lock_guard lock(telling);
      tell(++done);
    });
  }

  const std::vector<std::string>& texts_;
  const CompilerOptions& options_;
  std::string place_, key_;
  CommandGroup* group_;
  std::unique_ptr<ScratchFolder> scratch_;
};

[[noreturn]] void refuse(const Version& version, const KernelCache& cache) {
  const bool was_here = !version.text.empty();
  const std::string message =
      version.problem + (was_here ? "; and the cache `" + cache.folder() + "` does not have this program." : ".");
  if (version.missing) throw NoCompilerError(message, was_here);
  throw BackendError(message);
}

std::string key_of(const std::string& content, const CompilerOptions& options, const Version& version) {
  return digest(content + options.compiler + "\n" + version.text + "\n" + joined(options.flags, " ") + "\n" +
                processor_model().lines);
}
std::string key_of(const std::vector<std::string>& texts, const CompilerOptions& options, const Version& version) {
  std::string content;
  for (const std::string& text : texts) content += backend::without_comments(text) + "\n";
  return key_of(content, options, version);
}

std::vector<std::string> kept_texts(const std::string& place, const std::string& key, size_t texts) {
  std::vector<std::string> out;
  for (size_t t = 0; t < texts; ++t) out.push_back(Build::kept_text(place, key, t, texts));
  return out;
}
Compiled made(std::shared_ptr<Library> library, const std::string& place, const std::string& key, size_t texts,
              bool found) {
  return {std::move(library), key, found, kept_texts(place, key, texts)};
}

// The code of an entry, loaded; null if there is none that can be loaded.
std::shared_ptr<Library> found_in(const KernelCache& place, const std::string& key) {
  if (!place.has(key, kCode)) return nullptr;
  try {
    return std::make_shared<Library>(place.folder() + "/" + key + kCode);
  } catch (const BackendError&) {  // compiled on another system, or removed meanwhile: compile it again
    return nullptr;
  }
}

}  // namespace

std::vector<std::string> kept_texts(const std::vector<std::string>& texts, const CompilerOptions& options) {
  const KernelCache cache(options.cache);
  return kept_texts(cache.folder(), key_of(texts, options, version_of(options.compiler, cache)), texts.size());
}

std::vector<std::string> keep_texts(const std::vector<std::string>& texts, const CompilerOptions& options) {
  KernelCache cache(options.cache);
  const std::string key = key_of(texts, options, version_of(options.compiler, cache));
  auto kept_in = [&](const std::string& place) {
    std::vector<std::string> out = kept_texts(place, key, texts.size());
    for (size_t t = 0; t < texts.size() && !out.empty(); ++t)
      if (!backend::replace_file(out[t], texts[t]).empty()) out.clear();
    return out;
  };
  std::vector<std::string> out;
  if (cache.make()) out = kept_in(cache.folder());
  if (out.empty()) try {
      out = kept_in(backend::own_folder());
    } catch (const backend::NoFolderError&) {
    }
  return out;
}

namespace {

// What was compiled from so many texts, from the cache or from the folder of this process.
std::optional<Compiled> find(const KernelCache& cache, const std::string& key, size_t texts) {
  if (auto library = found_in(cache, key)) return made(std::move(library), cache.folder(), key, texts, true);
  if (const auto own = backend::own_folder_if_made())
    if (auto library = found_in(KernelCache(*own), key)) return made(std::move(library), *own, key, texts, true);
  return std::nullopt;
}

}  // namespace

void check_can_be_run(const CompilerOptions& options) {
  const KernelCache cache(options.cache);
  const Version version = version_of(options.compiler, cache);
  if (!version.problem.empty() && version.text.empty()) refuse(version, cache);
}

std::string key_of(const std::string& content, const CompilerOptions& options) {
  return key_of(content, options, version_of(options.compiler, KernelCache(options.cache)));
}

std::optional<Compiled> find_entry(const std::string& key, size_t texts, const CompilerOptions& options) {
  return find(KernelCache(options.cache), key, texts);
}

std::optional<Compiled> find_compiled(const std::vector<std::string>& texts, const CompilerOptions& options) {
  const KernelCache cache(options.cache);
  return find(cache, key_of(texts, options, version_of(options.compiler, cache)), texts.size());
}

Compiled compile(const std::vector<std::string>& texts, const CompilerOptions& options, Keep keep,
                 CommandGroup* group) {
  KernelCache cache(options.cache);
  const Version version = version_of(options.compiler, cache);
  const std::string key = key_of(texts, options, version);
  if (auto found = find(cache, key, texts.size())) return std::move(*found);
  auto compiled = [&](std::shared_ptr<Library> library, const std::string& place) {
    return made(std::move(library), place, key, texts.size(), false);
  };

  if (!version.problem.empty()) refuse(version, cache);
  std::string tried;
  auto note = [&](const std::string& what) { add_to_list(tried, what, "; "); };
  auto built_in = [&](const std::string& place) -> std::shared_ptr<Library> {
    try {
      return Build(texts, options, place, key, group).run(keep);
    } catch (const Unusable& unusable) {
      note("`" + place + "`: " + unusable.why);
      return nullptr;
    }
  };
  if (!cache.make()) {
    note(cache.problem().empty() ? "`" + cache.folder() + "` can only be read" : cache.problem());
  } else if (auto library = built_in(cache.folder())) {
    if (cache.read(note_key(options.compiler), kNote) != version.text)
      cache.write(note_key(options.compiler), kNote, version.text);
    cache.tidy(key);
    return compiled(std::move(library), cache.folder());
  }
  try {
    const std::string own = backend::own_folder();
    if (auto library = built_in(own)) return compiled(std::move(library), own);
  } catch (const backend::NoFolderError& error) {
    note(error.what());
  }
  throw BackendError("compiled code could not be written (is the disk full?): " + tried +
                     "; set CARAVAN_CACHE or TMPDIR to a folder with room.");
}

}  // namespace caravan::cc
