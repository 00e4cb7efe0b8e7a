#include "caravan/data/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "caravan/base/error.h"
#include "caravan/data/json_text.h"

namespace caravan::data {

namespace {

constexpr size_t kTarBlock = 512;
constexpr uint64_t kMostEntries = 100'000;
constexpr uint64_t kLongestName = 64 * 1024;  // a header of pax or GNU

using Block = std::array<char, kTarBlock>;

// A field of a header: its text ends at a zero byte.
std::string_view field(const Block& block, size_t at, size_t width) {
  const std::string_view all(block.data() + at, width);
  return all.substr(0, all.find('\0'));
}

// Octal, or GNU's binary number, which begins with the byte 80. Nothing where it is neither.
std::optional<uint64_t> number(const Block& block, size_t at, size_t width) {
  uint64_t out = 0;
  if (uint8_t(block[at]) == 0x80) {
    for (size_t i = 1; i < width; ++i) {
      if (out >> 56) return std::nullopt;
      out = out << 8 | uint8_t(block[at + i]);
    }
    return out;
  }
  std::string_view digits = field(block, at, width);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  if (digits.empty()) return 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out, 8);
  return error == std::errc() && stop == digits.data() + digits.size() ? std::optional(out) : std::nullopt;
}

bool has_its_checksum(const Block& block) {
  constexpr size_t kAt = 148, kWidth = 8;
  uint64_t sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) sum += i >= kAt && i < kAt + kWidth ? uint8_t(' ') : uint8_t(block[i]);
  return number(block, kAt, kWidth) == sum;
}

// One record of pax's "LENGTH KEY=VALUE\n" lines; empty where there is none of that key.
std::string pax_value(std::string_view records, std::string_view key) {
  std::string out;
  while (!records.empty()) {
    size_t length = 0;
    const auto [stop, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const size_t digits = size_t(stop - records.data());
    if (error != std::errc() || length <= digits + 1 || length > records.size()) return out;
    const std::string_view record = records.substr(digits + 1, length - digits - 1);
    if (record.starts_with(key) && record.substr(key.size()).starts_with('=') && record.ends_with('\n'))
      out = record.substr(key.size() + 1, record.size() - key.size() - 2);
    records.remove_prefix(length);
  }
  return out;
}

}  // namespace

TarReader::TarReader(ByteSource& source, std::string file, const ReadLimits& limits)
    : source_(source), file_(std::move(file)), most_(limits.unpacked) {}

void TarReader::refuse(const std::string& problem) const {
  throw ConfigError(fmt::format("`{}` is not a usable archive: {}.", file_, problem));
}

void TarReader::take(void* to, uint64_t n) {
  if (n > most_ - taken_) refuse(fmt::format("it unpacks to more than {} bytes", most_));
  taken_ += n;
  if (source_.read(to, n) != n) refuse("it ends in the middle, so it is truncated");
}
std::string TarReader::text(uint64_t n) {
  if (n > most_ - taken_) refuse(fmt::format("it unpacks to more than {} bytes", most_));
  if (n > source_.most()) refuse("it ends in the middle, so it is truncated");
  std::string out(n, '\0');
  take(out.data(), n);
  return out;
}
void TarReader::skip(uint64_t n) {
  for (char piece[4096]; n > 0;) {
    const uint64_t some = std::min<uint64_t>(n, sizeof piece);
    take(piece, some);
    n -= some;
  }
}

std::optional<TarEntry> TarReader::next() {
  std::string long_name;  // of headers that stand before the entry itself
  std::optional<uint64_t> long_size;
  while (true) {
    skip(std::exchange(left_, 0));
    skip(std::exchange(padding_, 0));
    Block block;
    take(block.data(), kTarBlock);
    if (std::all_of(block.begin(), block.end(), [](char c) { return c == 0; })) return std::nullopt;  // the end
    if (++entries_ > kMostEntries) refuse(fmt::format("it has more than {} entries", kMostEntries));
    if (!has_its_checksum(block)) refuse(fmt::format("entry {} is damaged", entries_));
    const char type = block[156];
    const std::optional<uint64_t> written = number(block, 124, 12);
    const uint64_t size = long_size.value_or(written.value_or(UINT64_MAX));
    if (size > most_) refuse(fmt::format("entry {} has more than {} bytes", entries_, most_));
    left_ = size;
    padding_ = (kTarBlock - size % kTarBlock) % kTarBlock;
    if (type == 'x' || type == 'L') {
      if (size > kLongestName) refuse(fmt::format("entry {} has a name of {} bytes", entries_, size));
      const std::string said = content();
      if (type == 'L') {
        long_name = said.substr(0, said.find('\0'));
        continue;
      }
      if (const std::string path = pax_value(said, "path"); !path.empty()) long_name = path;
      if (const std::string text = pax_value(said, "size"); !text.empty()) {
        uint64_t value = 0;
        const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc() || stop != text.data() + text.size())
          refuse(fmt::format("entry {} has the size {}", entries_, shown(text)));
        long_size = value;
      }
      continue;
    }
    if (type == 'g' || type == 'K') continue;  // of all entries; where a link leads
    TarEntry out;
    const std::string_view prefix = field(block, 257, 5) == "ustar" ? field(block, 345, 155) : std::string_view();
    out.name =
        !long_name.empty() ? long_name : fmt::format("{}{}{}", prefix, prefix.empty() ? "" : "/", field(block, 0, 100));
    if (out.name.starts_with("./")) out.name.erase(0, 2);
    const bool file = type == '0' || type == '\0' || type == '7';
    out.kind = file ? TarEntry::Kind::file : type == '1' || type == '2' ? TarEntry::Kind::link : TarEntry::Kind::other;
    out.size = size;
    return out;
  }
}

std::string TarReader::content() { return text(std::exchange(left_, 0)); }

}  // namespace caravan::data
