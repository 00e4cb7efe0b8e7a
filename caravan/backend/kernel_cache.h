// The folder of compiled code: what was compiled once is loaded by later processes.
//
// Whoever can write the folder, or a file in it, chooses code that runs as the user. So nothing is loaded from a folder
// that others could change, and no file that is another's; such a folder is left alone, and what is compiled goes to a
// folder of this process. A folder that is made here is closed to others (mode 0700).
//
// An entry is a file KEY.EXT, where KEY is the digest of everything that its content depends on. It appears by rename,
// and ends with a digest of its content and its key: one that is damaged, or has another's name, does not count. That
// tells accidents, not forgers; against these stands the rule above.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "caravan/base/error.h"

namespace caravan::backend {

std::string digest(std::string_view text);  // 32 hexadecimal digits; a name for content, not a defence

class KernelCache {
 public:
  // `given`, else $CARAVAN_CACHE, else the user's cache folder. Looks, and makes nothing. ConfigError where
  // $CARAVAN_CACHE_LIMIT is not a whole number of megabytes.
  explicit KernelCache(const std::string& given = "");

  const std::string& folder() const { return folder_; }    // absolute; empty: there is none
  const std::string& problem() const { return problem_; }  // why it is not used, without a full stop; empty: it is
  // Makes the folder where it is missing. False: new entries cannot be put there, because of a problem, or because the
  // folder can only be read.
  bool make();

  // The content of a checked entry, KEY.EXT. It counts as used now.
  std::optional<std::string> read(const std::string& key, const std::string& extension) const;
  bool has(const std::string& key, const std::string& extension) const { return read(key, extension).has_value(); }
  void write(const std::string& key, const std::string& extension, std::string_view content) const;  // if it can be

  // After an entry was written: removes what killed processes left, and then, while the folder has more bytes than the
  // limit, the entry whose last use is longest ago, except the one just written. It looks at the first call of a
  // process and then at every 64th.
  void tidy(const std::string& written) const;

  struct Content {
    int64_t kernels = 0;
    int64_t bytes = 0;  // of these and their texts
  };
  Content content() const;
  Content clear() const;  // removes all entries, and what killed processes left; returns what was removed

  int64_t limit() const { return limit_; }         // bytes; 0: none
  static constexpr int64_t kDefaultLimit = 1'000;  // megabytes: some ten thousand kernels

 private:
  std::string folder_, problem_;
  int64_t limit_;
  bool exists_ = false;
};

// A folder of this process alone, made at the first call; it goes when the process ends. A child of fork() has another.
class NoFolderError : public BackendError {  // none can be made
 public:
  using BackendError::BackendError;
};
std::string own_folder();
std::optional<std::string> own_folder_if_made();

// How the names of folders begin in which entries are made.
inline constexpr const char* kBuildPrefix = "build.";

std::string sealed(std::string_view content, const std::string& key);  // the bytes of an entry
// Writes a new file that others may read. Returns why it could not, as "No space left on device"; empty: it did.
std::string write_new_file(const std::string& path, std::string_view content);

}  // namespace caravan::backend
