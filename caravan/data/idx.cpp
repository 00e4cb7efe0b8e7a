#include "caravan/data/idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "caravan/base/error.h"
#include "caravan/data/atomic_file.h"
#include "caravan/data/element_count.h"
#include "caravan/data/gzip.h"

namespace caravan::data {

namespace {

static_assert(std::endian::native == std::endian::little);

struct IdxType {
  uint8_t code;
  const char* name;
  int64_t bytes;
  DType dtype;  // as an array
};
constexpr IdxType kIdxTypes[] = {
    {0x08, "u8", 1, DType::u8},   {0x09, "i8", 1, DType::i32},  {0x0b, "i16", 2, DType::i32},
    {0x0c, "i32", 4, DType::i32}, {0x0d, "f32", 4, DType::f32}, {0x0e, "f64", 8, DType::f64},
};

constexpr size_t kMagicBytes = 4, kSizeBytes = 4;
constexpr int kMostIdxAxes = 32;
constexpr size_t kLongestIdxHeader = kMagicBytes + kSizeBytes * kMostIdxAxes;
constexpr int64_t kLargestSize = UINT32_MAX;

uint32_t big_endian(std::string_view four) {
  uint32_t out = 0;
  for (const char c : four.substr(0, 4)) out = out << 8 | uint8_t(c);
  return out;
}

// Turns each of n elements of `bytes` bytes around.
void reverse_each(std::byte* elements, int64_t n, int64_t bytes) {
  if (bytes > 1)
    for (int64_t i = 0; i < n; ++i) std::reverse(elements + i * bytes, elements + (i + 1) * bytes);
}

class IdxParser {
 public:
  // `beginning`: all of a file, or as much as the longest header has.
  IdxParser(std::string_view beginning, const std::string& file) : content_(beginning), file_(file) {}

  size_t header_bytes() const {
    type();  // which refuses what is too short
    return kMagicBytes + kSizeBytes * sizes().size();
  }

  // From a source that is behind the header.
  Array run(ByteSource& source) const {
    const IdxType& type = this->type();
    const std::vector<int64_t> sizes = this->sizes();
    const int64_t count = this->count(type, sizes), needed = count * type.bytes;
    if (uint64_t(needed) > source.most()) truncated(type, sizes, needed, source.most());
    Shape shape;
    for (const int64_t size : sizes) (shape.batch.empty() ? shape.batch : shape.output).push_back({size});
    Array out(shape, type.dtype);
    auto* to = static_cast<std::byte*>(out.mutable_data());
    // i8 and i16 are read into the end of the array and widened from its beginning: never past what is to be read.
    std::byte* from = to + (bytes(type.dtype) - type.bytes) * count;
    const size_t got = source.read(from, size_t(needed));
    if (got < size_t(needed)) truncated(type, sizes, needed, got);
    if (type.bytes == bytes(type.dtype))
      reverse_each(to, count, type.bytes);
    else
      for (int64_t i = 0; i < count; ++i) {
        int64_t value = int8_t(from[i * type.bytes]);
        if (type.bytes == 2) value = value << 8 | uint8_t(from[i * 2 + 1]);
        store(type.dtype, to, i, double(value));
      }
    return out;
  }

  [[noreturn]] void too_long(uint64_t more) const {
    const IdxType& type = this->type();
    const std::vector<int64_t> sizes = this->sizes();
    refuse(fmt::format("{} elements of {} need {} bytes, but {} more follow", fmt::join(sizes, "×"), type.name,
                       count(type, sizes) * type.bytes, more));
  }

  // How long the whole content must be, by its header: the rest may be missing.
  uint64_t promised() const {
    const IdxType& type = this->type();
    const std::vector<int64_t> sizes = this->sizes();
    return header_bytes() + uint64_t(count(type, sizes) * type.bytes);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw ConfigError(
        fmt::format("`{}` is not a usable IDX file: {}. Fetch it again, or give another.", file_, problem));
  }

  [[noreturn]] void truncated(const IdxType& type, const std::vector<int64_t>& sizes, int64_t needed,
                              uint64_t there) const {
    refuse(
        fmt::format("its header promises {} elements of {}, {} bytes, but {} bytes follow; it is truncated or damaged",
                    fmt::join(sizes, "×"), type.name, needed, there));
  }

  const IdxType& type() const {
    if (content_.size() < kMagicBytes)
      refuse(fmt::format("it has {} bytes, and its first {} say what it is", content_.size(), kMagicBytes));
    if (content_[0] != 0 || content_[1] != 0)
      refuse(fmt::format("it begins with the bytes {:02x} {:02x} instead of 00 00", uint8_t(content_[0]),
                         uint8_t(content_[1])));
    for (const IdxType& row : kIdxTypes)
      if (row.code == uint8_t(content_[2])) return row;
    refuse(
        fmt::format("its elements have the unknown type {:02x}; there are 08 u8, 09 i8, 0b i16, 0c i32, 0d f32 and "
                    "0e f64",
                    uint8_t(content_[2])));
  }

  std::vector<int64_t> sizes() const {
    const int axes = uint8_t(content_[3]);
    if (axes == 0 || axes > kMostIdxAxes)
      refuse(fmt::format("it has {} axes, and from 1 to {} can be read", axes, kMostIdxAxes));
    if (content_.size() < kMagicBytes + kSizeBytes * size_t(axes))
      refuse(fmt::format("its {} bytes end within the sizes of its {} axes; it is truncated", content_.size(), axes));
    std::vector<int64_t> out;
    for (int i = 0; i < axes; ++i)
      out.push_back(big_endian(content_.substr(kMagicBytes + kSizeBytes * size_t(i), kSizeBytes)));
    return out;
  }

  int64_t count(const IdxType& type, const std::vector<int64_t>& sizes) const {
    if (const std::optional<int64_t> out = element_count(sizes)) return *out;
    refuse(fmt::format("its header promises {} elements of {}, more bytes than can be counted; it is damaged",
                       fmt::join(sizes, "×"), type.name));
  }

  std::string_view content_;
  const std::string& file_;
};

}  // namespace

Array parse_idx(std::string_view content, const std::string& file, const ReadLimits& limits, Source where) {
  const WrittenAt at(where);
  if (!is_gzip(content)) {
    const IdxParser parser(content, file);
    TextSource source(content.substr(parser.header_bytes()));
    const Array out = parser.run(source);
    if (source.most() > 0) parser.too_long(source.most());
    return out;
  }
  const std::string beginning = gunzip_start(content, file, kLongestIdxHeader);
  const IdxParser parser(beginning, file);
  const uint64_t promised = parser.promised();
  if (promised > limits.unpacked)
    throw ConfigError(
        fmt::format("`{}` promises to unpack to {} bytes, and at most {} are read (ReadLimits raises it).", file,
                    promised, limits.unpacked));
  const std::unique_ptr<ByteSource> source = gunzipping(content, file);
  char header[kLongestIdxHeader];
  source->read(header, parser.header_bytes());
  const Array out = parser.run(*source);
  if (count_rest(*source, 1) > 0)
    throw ConfigError(fmt::format("`{}` unpacks to more than {} bytes, what its header promises.", file, promised));
  return out;
}

Array read_idx(const std::string& path, const ReadLimits& limits, Source where) {
  const WrittenAt at(where);
  return naming_memory(path, [&] { return parse_idx(read_file(path), path, limits); });
}

std::string idx_content(const Array& array, Source where) {
  const WrittenAt at(where);
  const std::vector<int64_t> sizes = array.shape().sizes();
  const auto row = std::find_if(std::begin(kIdxTypes), std::end(kIdxTypes), [&](const IdxType& r) {
    return r.dtype == array.dtype() && r.bytes == bytes(array.dtype());
  });
  if (row == std::end(kIdxTypes))
    throw ConfigError(
        fmt::format("an IDX file has u8, i32, f32 or f64, not {}; `cast` the array first.", name(array.dtype())));
  if (sizes.empty() || sizes.size() > kMostIdxAxes)
    throw ConfigError(
        fmt::format("an IDX file has from 1 to {} axes, and the array has {}.", kMostIdxAxes, sizes.size()));
  std::string out{0, 0, char(row->code), char(sizes.size())};
  for (const int64_t size : sizes) {
    if (size > kLargestSize)
      throw ConfigError(fmt::format("an axis of an IDX file has at most {} positions, not {}.", kLargestSize, size));
    for (int shift = 24; shift >= 0; shift -= 8) out += char(uint8_t(size >> shift));
  }
  const size_t header = out.size();
  out.resize(header + size_t(array.size() * row->bytes));
  auto* elements = reinterpret_cast<std::byte*>(out.data() + header);
  if (array.size() > 0) std::memcpy(elements, array.data(), out.size() - header);
  reverse_each(elements, array.size(), row->bytes);
  return out;
}

void write_idx(const std::string& path, const Array& array, Source where) {
  const WrittenAt at(where);
  write_file(path, idx_content(array));
}

}  // namespace caravan::data
