// The folder of compiled code: what was compiled once is loaded by later processes.
//
// Whoever can write to the folder, or to a file in it, can make the user run any code. So nothing is loaded from a
// folder that other users could change, and no file that belongs to another user. Such a folder is not used; compiled
// code then goes to a folder of this process. A folder that is made here cannot be entered by others (mode 0700).
//
// An entry is a file KEY.EXT, where KEY is the digest of everything that its content depends on. It is written under
// another name and renamed, so that it appears complete. It ends with a digest of its content and its key: a file that
// is damaged, or has the name of another entry, is ignored. The digest detects accidents, not forgery; the rule above
// protects against forgery.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "caravan/base/error.h"

namespace caravan::backend {

// The text of a program without comments, and without lines that are then empty. Comments name lines of the user's
// program, and these numbers must not change the key of an entry when lines above them are edited.
std::string without_comments(std::string_view text);
std::string digest(std::string_view text);  // 32 hexadecimal digits; identifies content, but is not cryptographic

class KernelCache {
 public:
  // Uses the folder `given`, else $CARAVAN_CACHE, else the user's cache folder. Checks it, and creates nothing. Throws
  // ConfigError if $CARAVAN_CACHE_LIMIT is not a whole number of megabytes.
  explicit KernelCache(const std::string& given = "");

  const std::string& folder() const { return folder_; }    // absolute; empty: there is none
  const std::string& problem() const { return problem_; }  // why it is not used, without a full stop; empty: it is
  // Creates the folder if it is missing. Returns false if entries cannot be written there: there is a problem, or the
  // folder is read-only.
  bool make();

  // The content of the entry KEY.EXT, if there is one and its digest is right. Updates the time of its last use.
  std::optional<std::string> read(const std::string& key, const std::string& extension) const;
  bool has(const std::string& key, const std::string& extension) const { return read(key, extension).has_value(); }
  // Does nothing where it cannot be written.
  void write(const std::string& key, const std::string& extension, std::string_view content) const;

  // To be called after an entry was written. Removes what killed processes left. Then, while the folder has more bytes
  // than the limit, removes the least recently used entry, but not the one just written. Only the first call of a
  // process and every 64th look at the folder.
  void tidy(const std::string& written) const;

  struct Content {
    int64_t kernels = 0;
    int64_t bytes = 0;  // of the kernels and their texts
  };
  Content content() const;
  Content clear() const;  // removes all entries and what killed processes left; returns what it removed

  int64_t limit() const { return limit_; }         // bytes; 0: none
  static constexpr int64_t kDefaultLimit = 1'000;  // megabytes: about ten thousand kernels

 private:
  std::string folder_, problem_;
  int64_t limit_;
  bool exists_ = false;
};

// The prefix of the names of folders in which entries are built.
inline constexpr const char* kBuildPrefix = "build.";

// The bytes of an entry: the content and its digest.
std::string sealed(std::string_view content, const std::string& key);
// Writes a new file that others may read. Returns why that failed, such as "No space left on device", or an empty text.
std::string write_new_file(const std::string& path, std::string_view content);
// Writes a file under another name and renames it, so that it appears complete, in place of one that was there. Returns
// what write_new_file does.
std::string replace_file(const std::string& path, std::string_view content);

}  // namespace caravan::backend
