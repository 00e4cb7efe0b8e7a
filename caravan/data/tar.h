// Tar archives (ustar, and the long names of pax and GNU), one entry after the other. Nothing is written anywhere: who
// wants an entry reads its content, and links, devices and folders are seen and never followed or made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "caravan/data/byte_source.h"

namespace caravan::data {

struct TarEntry {
  enum class Kind : uint8_t { file, link, other };
  std::string name;
  Kind kind = Kind::other;
  uint64_t size = 0;  // of a file's content
};

class TarReader {
 public:
  // ConfigError, one sentence, for everything that is wrong with the archive, and where it has more than `limits` says
  // of bytes or more than 100,000 entries; `file` names it in the message.
  TarReader(ByteSource& source, std::string file, const ReadLimits& limits = {});

  std::optional<TarEntry> next();  // skips what is left of the one before; nothing at the end
  std::string content();           // of the entry that next() gave, all of it

 private:
  [[noreturn]] void refuse(const std::string& problem) const;
  void take(void* to, uint64_t n);  // exactly these, counted
  std::string text(uint64_t n);
  void skip(uint64_t n);

  ByteSource& source_;
  const std::string file_;
  const uint64_t most_;
  uint64_t taken_ = 0;    // bytes of the archive so far
  uint64_t left_ = 0;     // of the entry's content
  uint64_t padding_ = 0;  // behind it
  uint64_t entries_ = 0;
};

}  // namespace caravan::data
