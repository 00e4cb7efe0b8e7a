#include "caravan/backend/cc/compile.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

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
  std::snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(a), static_cast<unsigned long long>(b));
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
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
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

// The cache, or a folder of this process alone if the cache cannot be written.
fs::path cache_folder(const CompilerOptions& options) {
  auto from = [](const char* name) { const char* value = std::getenv(name); return std::string(value ? value : ""); };
  std::vector<fs::path> candidates;
  if (!options.cache.empty()) candidates.push_back(options.cache);
  else if (!from("CARAVAN_CACHE").empty()) candidates.push_back(from("CARAVAN_CACHE"));
  else if (!from("XDG_CACHE_HOME").empty()) candidates.push_back(fs::path(from("XDG_CACHE_HOME")) / "caravan");
  else if (!from("HOME").empty()) candidates.push_back(fs::path(from("HOME")) / ".cache" / "caravan");
  for (const fs::path& folder : candidates)
    if (usable(folder)) return folder;
  fs::path own = fs::temp_directory_path() / ("caravan-" + std::to_string(getuid()) + "-" + std::to_string(getpid()));
  if (usable(own)) return own;
  throw BackendError("no folder for compiled code can be written: tried " + (candidates.empty() ? std::string("none") : candidates[0].string()) + " and " + own.string() + "; set CARAVAN_CACHE.");
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
    throw BackendError("the C compiler `" + compiler + "` cannot be run (`" + compiler + " --version` failed); install one (apt-get install gcc) or set another.");
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

Compiled compile(const std::string& source, const CompilerOptions& options) {
  fs::path folder = cache_folder(options);
  std::string key = digest(source + "\n" + options.compiler + "\n" + version_of(options.compiler, folder) + "\n" + joined(options.flags) + "\n" + processor());
  fs::path object = folder / (key + ".so"), sum = folder / (key + ".sum"), text = folder / (key + ".c");

  std::string expected = read_file(sum);
  if (!expected.empty() && digest(read_file(object)) == expected) return {std::make_shared<Library>(object.string()), true, text.string()};

  static std::atomic<int> serial{0};
  fs::path stem = folder / (key + "." + std::to_string(getpid()) + "." + std::to_string(serial++));
  fs::path c = stem.string() + ".c", so = stem.string() + ".so", log = stem.string() + ".log", new_sum = stem.string() + ".sum";
  std::error_code ignored;
  auto clean = [&] {
    for (const fs::path& p : {so, log, new_sum}) fs::remove(p, ignored);
  };
  std::vector<std::string> command = {options.compiler};
  command.insert(command.end(), options.flags.begin(), options.flags.end());
  for (const std::string& word : {c.string(), std::string("-o"), so.string(), std::string("-lm")}) command.push_back(word);
  if (!write_file(c, source)) throw BackendError("the generated C could not be written to " + c.string() + "; is the disk full?");
  int status = run(command, log);
  if (status != 0) {
    std::string said = read_file(log);
    clean();
    throw BackendError("the C compiler failed (status " + std::to_string(status) + ").\n  command: " + joined(command) + "\n  source:  " + c.string() + "\n  log:     " + said);
  }
  std::string bytes = read_file(so);
  if (bytes.empty() || !write_file(new_sum, digest(bytes))) {
    clean();
    throw BackendError("compiled code could not be written to " + folder.string() + "; is the disk full?");
  }
  auto library = std::make_shared<Library>(so.string());  // loaded from our own file: nobody else touches it
  fs::rename(c, text, ignored);
  fs::rename(so, object, ignored);
  fs::rename(new_sum, sum, ignored);
  clean();
  return {std::move(library), false, text.string()};
}

}  // namespace caravan::cc
