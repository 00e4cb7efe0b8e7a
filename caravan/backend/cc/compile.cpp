#include "caravan/backend/cc/compile.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "caravan/base/error.h"

extern char** environ;

namespace caravan::cc {

namespace fs = std::filesystem;

namespace {

// 128 bits of FNV-1a in two lanes: a name for content, not a defence.
std::string digest(const std::string& text) {
  uint64_t a = 0xcbf29ce484222325, b = 0x84222325cbf29ce4;
  for (char c : text) {
    a = (a ^ uint8_t(c)) * 0x100000001b3;
    b = (b ^ uint8_t(c)) * 0x9e3779b97f4a7c15;
    b ^= b >> 29;
  }
  char out[40];
  std::snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b));
  return out;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}
bool write_file(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.flush();
  return bool(out);
}

// Runs a command with its output in a file; the exit status, or -1 if it could not be started.
int run(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

bool usable(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return !error && access(folder.c_str(), W_OK | X_OK) == 0;
}

// The folder where entries are looked for, and the first choice for new ones; empty if there is no such place.
fs::path cache_folder(const CompilerOptions& options) {
  auto from = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (!options.cache.empty()) return options.cache;
  if (std::string set = from("CARAVAN_CACHE"); !set.empty()) return set;
  if (std::string set = from("XDG_CACHE_HOME"); !set.empty()) return fs::path(set) / "caravan";
  if (std::string set = from("HOME"); !set.empty()) return fs::path(set) / ".cache" / "caravan";
  return {};
}

// A folder of this process alone, for when the cache cannot be written; it goes when the process ends.
class OwnFolder {
 public:
  explicit OwnFolder(const fs::path& wanted) : owner_(getpid()) {
    std::error_code error;
    const fs::path temporary = fs::temp_directory_path(error);
    std::string pattern = ((error ? fs::path("/tmp") : temporary) / "caravan-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw BackendError("no folder for compiled code can be written: tried " +
                         (wanted.empty() ? "none" : wanted.string()) + " and " + pattern + "; set CARAVAN_CACHE.");
    path_ = pattern;
  }
  ~OwnFolder() {
    std::error_code ignored;
    if (getpid() == owner_) fs::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  pid_t owner_;
};
fs::path writable_folder(const fs::path& cache) {
  if (!cache.empty() && usable(cache)) return cache;
  static const OwnFolder own(cache);
  return own.path();
}

// An entry is the shared object followed by the digest of it: one file, so that it appears and is replaced as a whole.
// (What follows the sections of a shared object is no concern of the loader.)
constexpr size_t kDigest = 32;
bool is_whole(const std::string& entry) {
  return entry.size() > kDigest &&
         digest(entry.substr(0, entry.size() - kDigest)) == entry.substr(entry.size() - kDigest);
}
std::shared_ptr<Library> load_entry(const fs::path& object) {
  if (!is_whole(read_file(object))) return nullptr;
  try {
    return std::make_shared<Library>(object.string());
  } catch (const BackendError&) {  // made on another system: make it again
    return nullptr;
  }
}

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  std::string line, out;
  while (std::getline(in, line)) {
    bool model = line.rfind("model name", 0) == 0, features = line.rfind("flags", 0) == 0;
    if (model || features) out += line + "\n";
    if (features) break;
  }
  return out;
}

std::string version_of(const std::string& compiler, const fs::path& folder) {
  static std::mutex mutex;
  static std::vector<std::pair<std::string, std::string>> known;  // asking costs milliseconds
  std::lock_guard lock(mutex);
  for (const auto& [name, version] : known)
    if (name == compiler) return version;
  fs::path log = folder / ("version." + std::to_string(getpid()));
  int status = run({compiler, "--version"}, log);
  std::string version = read_file(log);
  std::error_code ignored;
  fs::remove(log, ignored);
  if (status != 0)
    throw BackendError("the C compiler `" + compiler + "` cannot be run (`" + compiler +
                       " --version` failed); install one (apt-get install gcc).");
  known.push_back({compiler, version});
  return version;
}

}  // namespace

Library::Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_) throw BackendError("compiled code could not be loaded: " + std::string(dlerror()));
}
Library::~Library() { dlclose(handle_); }
void* Library::symbol(const char* name) const {
  void* found = dlsym(handle_, name);
  if (!found) throw BackendError("compiled code has no `" + std::string(name) + "`.");
  return found;
}

namespace {

// One build of a library, under passing names that nobody else uses.
class Build {
 public:
  Build(const std::vector<std::string>& texts, const CompilerOptions& options, const fs::path& folder, std::string key)
      : texts_(texts), options_(options), folder_(folder), key_(std::move(key)) {
    static std::atomic<int> serial{0};
    stem_ = (folder_ / (key_ + "." + std::to_string(getpid()) + "." + std::to_string(serial++))).string();
  }
  ~Build() {
    std::error_code ignored;
    for (const std::string& path : passing_) fs::remove(path, ignored);
  }
  Build(const Build&) = delete;
  Build& operator=(const Build&) = delete;

  std::shared_ptr<Library> run() {
    for (size_t t = 0; t < texts_.size(); ++t)
      if (!write_file(text(t), texts_[t])) {
        std::error_code ignored;
        for (size_t written = 0; written <= t; ++written) fs::remove(text(written), ignored);
        throw BackendError("the generated C could not be written to " + text(t) + "; is the disk full?");
      }
    if (texts_.size() == 1) {
      call({text(0), "-shared", "-o", passing(".so"), "-lm"}, 0);
    } else {
      compile_all();
      std::vector<std::string> link;
      for (size_t t = 0; t < texts_.size(); ++t) link.push_back(passing(object(t)));
      for (const std::string& word : {std::string("-shared"), std::string("-Wl,-Bsymbolic"), std::string("-o"),
                                      passing(".so"), std::string("-lm")})
        link.push_back(word);
      call(link, texts_.size());
    }
    const std::string library = passing(".so"), bytes = read_file(library);
    if (bytes.empty() || !write_file(library, bytes + digest(bytes)))
      throw BackendError("compiled code could not be written to " + folder_.string() + "; is the disk full?");
    auto loaded = std::make_shared<Library>(library);  // from our own file: nobody else touches it
    std::error_code ignored;
    for (size_t t = 0; t < texts_.size(); ++t) fs::rename(text(t), kept_text(folder_, key_, t, texts_.size()), ignored);
    fs::rename(library, folder_ / (key_ + ".so"), ignored);
    return loaded;
  }

  static std::string kept_text(const fs::path& folder, const std::string& key, size_t t, size_t texts) {
    return (folder / (key + (texts == 1 ? "" : "." + std::to_string(t)) + ".c")).string();
  }

 private:
  std::string text(size_t t) const { return kept_text(folder_, stem_, t, texts_.size()); }
  static std::string object(size_t t) { return "." + std::to_string(t) + ".o"; }
  std::string passing(const std::string& suffix) {
    std::lock_guard lock(mutex_);
    passing_.insert(stem_ + suffix);
    return stem_ + suffix;
  }

  void call(const std::vector<std::string>& words, size_t number) {
    std::vector<std::string> command = {options_.compiler};
    command.insert(command.end(), options_.flags.begin(), options_.flags.end());
    // debug information names the text as it is kept
    command.push_back("-ffile-prefix-map=" + stem_ + "=" + (folder_ / key_).string());
    command.insert(command.end(), words.begin(), words.end());
    const std::string log = passing("." + std::to_string(number) + ".log");
    if (const int status = caravan::cc::run(command, log); status != 0) {
      std::error_code error;
      const fs::space_info space = fs::space(folder_, error);
      const bool full = !error && space.available < (1 << 20);  // then the log may be missing
      throw BackendError("the C compiler failed (status " + std::to_string(status) + ")" +
                         (full ? "; there is hardly any space left in " + folder_.string() : "") + ".\n  command: " +
                         joined(command) + "\n  source:  " + words.front() + "\n  log:     " + read_file(log));
    }
  }

  void compile_all() {
    const int total = int(texts_.size());
    std::atomic<int> next{0};
    std::exception_ptr failed;
    int done = 0;
    auto tell = [&] {
      if (options_.progress) options_.progress(done, total);
    };
    tell();
    auto work = [&] {
      for (int t; (t = next++) < total;) try {
          call({text(size_t(t)), "-c", "-o", passing(object(size_t(t)))}, size_t(t));
          std::lock_guard lock(told_);
          ++done, tell();
        } catch (...) {
          std::lock_guard lock(told_);
          failed = std::current_exception(), next = total;
        }
    };
    std::vector<std::thread> others;
    for (int w = 1; w < std::min(total, int(std::thread::hardware_concurrency())); ++w) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
    if (failed) std::rethrow_exception(failed);
  }

  const std::vector<std::string>& texts_;
  const CompilerOptions& options_;
  fs::path folder_;
  std::string key_, stem_;
  std::mutex mutex_, told_;
  std::set<std::string> passing_;  // files to remove
};

}  // namespace

Compiled compile(const std::vector<std::string>& texts, const CompilerOptions& options) {
  fs::path cache = cache_folder(options);
  if (!cache.empty()) cache = fs::absolute(cache);  // the loader would look for a bare name elsewhere
  const fs::path folder = writable_folder(cache);
  std::string content;
  for (const std::string& text : texts) content += text + "\n";
  const std::string key = digest(content + options.compiler + "\n" + version_of(options.compiler, folder) + "\n" +
                                 joined(options.flags) + "\n" + processor());
  auto sources = [&](const fs::path& place) {
    std::vector<std::string> out;
    for (size_t t = 0; t < texts.size(); ++t) out.push_back(Build::kept_text(place, key, t, texts.size()));
    return out;
  };
  for (const fs::path& place : {cache, folder})  // a cache that cannot be written can still be read
    if (auto library = place.empty() ? nullptr : load_entry(place / (key + ".so")))
      return {std::move(library), true, sources(place)};
  return {Build(texts, options, folder, key).run(), false, sources(folder)};
}

}  // namespace caravan::cc
