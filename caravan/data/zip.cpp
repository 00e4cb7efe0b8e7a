#include "caravan/data/zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "caravan/base/error.h"
#include "caravan/data/gzip.h"
#include "caravan/data/json_text.h"

namespace caravan::data {

namespace {

// APPNOTE.TXT of PKWARE: entries, each behind a local header; a directory of them; a record that says where that is.
constexpr std::string_view kLocal = "PK\3\4", kCentral = "PK\1\2", kEnd = "PK\5\6";
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kLongestComment = 65535;
constexpr uint32_t kStored = 0, kDeflated = 8;
constexpr uint32_t kEncrypted = 1, kUtf8 = 1 << 11;
constexpr size_t kLargest = UINT32_MAX - 1;  // UINT32_MAX stands for "see the 64-bit field"

class ZipParser {
 public:
  ZipParser(std::string_view content, const std::string& file, const ReadLimits& limits)
      : content_(content), file_(file), limits_(limits) {}

  std::vector<ZipItem> run() {
    find_directory();
    std::vector<ZipItem> out;
    for (size_t i = 0; i < count_; ++i) out.push_back(item());
    if (at_ != end_) refuse(fmt::format("{} bytes follow its directory", end_ - at_));
    check_ranges();
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw ConfigError(fmt::format("`{}` is not a usable zip file: {}.", file_, problem));
  }

  size_t number(size_t at, size_t width) const {
    size_t out = 0;
    for (size_t i = 0; i < width; ++i) out |= size_t(uint8_t(content_[at + i])) << (8 * i);
    return out;
  }

  void find_directory() {
    if (content_.size() < kEndBytes) refuse(fmt::format("it has {} bytes", content_.size()));
    const size_t last = content_.size() - kEndBytes;
    size_t at = last;
    // The record is at the end, but for a comment that fills the rest.
    while (!(content_.substr(at).starts_with(kEnd) && at + kEndBytes + number(at + 20, 2) == content_.size())) {
      if (at == 0 || last - at == kLongestComment) refuse("it has no directory at its end; it is truncated");
      --at;
    }
    end_ = at;
    if (number(at + 4, 2) != 0 || number(at + 6, 2) != 0 || number(at + 8, 2) != number(at + 10, 2))
      refuse("it is a part of several");
    count_ = number(at + 10, 2);
    at_ = number(at + 16, 4);
    if (count_ == UINT16_MAX || at_ > kLargest) refuse("it has 65,535 entries or 4 GiB or more, which is not read");
    if (at_ > end_ || end_ - at_ != number(at + 12, 4))
      refuse(fmt::format("its directory would be {} bytes at {}, but the file has room for {}", number(at + 12, 4), at_,
                         end_ > at_ ? end_ - at_ : 0));
  }

  // The entry that the directory has at at_, which moves on.
  ZipItem item() {
    if (end_ - at_ < kCentralBytes || !content_.substr(at_).starts_with(kCentral))
      refuse(fmt::format("its directory is damaged at byte {}", at_));
    const size_t flags = number(at_ + 8, 2), method = number(at_ + 10, 2), crc = number(at_ + 16, 4);
    const size_t packed = number(at_ + 20, 4), size = number(at_ + 24, 4), local = number(at_ + 42, 4);
    const size_t name_bytes = number(at_ + 28, 2), more = number(at_ + 30, 2) + number(at_ + 32, 2);
    if (end_ - at_ - kCentralBytes < name_bytes + more) refuse(fmt::format("its directory is damaged at byte {}", at_));
    const std::string name(content_.substr(at_ + kCentralBytes, name_bytes));
    at_ += kCentralBytes + name_bytes + more;

    if (!names_.insert(name).second) refuse(fmt::format("it has {} twice", shown(name)));
    if (flags & kEncrypted) refuse(fmt::format("{} is encrypted", shown(name)));
    if (method != kStored && method != kDeflated)
      refuse(fmt::format("{} is packed by method {}; stored (0) and deflated (8) can be read", shown(name), method));
    if (packed > kLargest || size > kLargest || local > kLargest)
      refuse(fmt::format("{} has 4 GiB or more, which is not read", shown(name)));

    if (local > content_.size() || content_.size() - local < kLocalBytes || !content_.substr(local).starts_with(kLocal))
      refuse(fmt::format("there is no entry at byte {}, where {} should be", local, shown(name)));
    const size_t header = kLocalBytes + number(local + 26, 2) + number(local + 28, 2);
    if (content_.size() - local < header || content_.size() - local - header < packed)
      refuse(fmt::format("{} would end behind the end of the file", shown(name)));
    if (content_.substr(local + kLocalBytes, number(local + 26, 2)) != name)
      refuse(fmt::format("{} has another name where it is", shown(name)));
    ranges_.emplace_back(local, local + header + packed);

    if (size / kBestDeflation > packed || (method == kStored && size != packed))
      refuse(fmt::format("{} would unpack to {} bytes, which its {} cannot", shown(name), size, packed));
    if (method == kDeflated) unpacked_ += size;
    if (unpacked_ > limits_.unpacked)
      refuse(fmt::format("up to {} it would unpack to {} bytes, and at most {} are read (ReadLimits raises it)",
                         shown(name), unpacked_, limits_.unpacked));
    return {name,
            content_.substr(local + header, packed),
            method == kDeflated,
            size,
            uint32_t(crc),
            fmt::format("`{}` is not a usable zip file: {} is damaged.", file_, shown(name))};
  }

  // Entries that overlap could make much of a little.
  void check_ranges() {
    std::sort(ranges_.begin(), ranges_.end());
    for (size_t i = 1; i < ranges_.size(); ++i)
      if (ranges_[i].first < ranges_[i - 1].second) refuse("its entries overlap");
  }

  std::string_view content_;
  const std::string& file_;
  const ReadLimits& limits_;
  size_t at_ = 0, end_ = 0, count_ = 0;
  uint64_t unpacked_ = 0;  // of the deflated entries; the others are no longer than the file
  std::set<std::string> names_;
  std::vector<std::pair<size_t, size_t>> ranges_;
};

void append(std::string& out, std::initializer_list<std::pair<size_t, int>> numbers) {
  for (const auto& [value, width] : numbers)
    for (int i = 0; i < width; ++i) out += char(uint8_t(value >> (8 * i)));
}

}  // namespace

std::vector<ZipItem> zip_items(std::string_view content, const std::string& file, const ReadLimits& limits) {
  return ZipParser(content, file, limits).run();
}

std::unique_ptr<ByteSource> open(const ZipItem& item) {
  if (item.deflated) return inflating(item.packed, item.size, item.crc, item.damaged);
  if (crc32(item.packed) != item.crc) throw ConfigError(item.damaged);
  return std::make_unique<TextSource>(item.packed);
}

std::vector<ZipEntry> parse_zip(std::string_view content, const std::string& file, const ReadLimits& limits) {
  std::vector<ZipEntry> out;
  for (const ZipItem& item : zip_items(content, file, limits)) {
    const std::unique_ptr<ByteSource> source = open(item);
    std::string text(item.size, '\0');
    if (source->read(text.data(), text.size()) != text.size() || count_rest(*source, 1) > 0)
      throw ConfigError(item.damaged);
    out.push_back({item.name, std::move(text)});
  }
  return out;
}

std::string zip_content(const std::vector<ZipEntry>& entries, bool deflate) {
  constexpr size_t kVersion = 20, kTime = 0, kDate = 1 << 5 | 1;  // 1 January 1980, the first day there is
  const size_t method = deflate ? kDeflated : kStored;
  std::string out, directory;
  for (const ZipEntry& entry : entries) {
    const std::string packed = deflate ? deflated(entry.content) : entry.content;
    if (packed.size() > kLargest || entry.content.size() > kLargest || out.size() > kLargest ||
        entry.name.size() > 65535)
      throw ConfigError(fmt::format("{} does not fit a zip file, which ends below 4 GiB.", shown(entry.name)));
    const size_t at = out.size(), crc = crc32(entry.content);
    out += kLocal;
    append(out, {{kVersion, 2}, {kUtf8, 2}, {method, 2}, {kTime, 2}, {kDate, 2}, {crc, 4}, {packed.size(), 4}});
    append(out, {{entry.content.size(), 4}, {entry.name.size(), 2}, {0, 2}});
    out += entry.name + packed;
    directory += kCentral;
    append(directory, {{kVersion, 2}, {kVersion, 2}, {kUtf8, 2}, {method, 2}, {kTime, 2}, {kDate, 2}, {crc, 4}});
    append(directory, {{packed.size(), 4}, {entry.content.size(), 4}, {entry.name.size(), 2}, {0, 2}, {0, 2}, {0, 2}});
    append(directory, {{0, 2}, {0, 4}, {at, 4}});
    directory += entry.name;
  }
  if (entries.size() >= UINT16_MAX || out.size() > kLargest)
    throw ConfigError(fmt::format("{} entries of {} bytes do not fit a zip file.", entries.size(), out.size()));
  const size_t at = out.size();
  out += directory;
  out += kEnd;
  append(out, {{0, 2}, {0, 2}, {entries.size(), 2}, {entries.size(), 2}, {directory.size(), 4}, {at, 4}, {0, 2}});
  return out;
}

}  // namespace caravan::data
