#include "caravan/data/idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "caravan/base/error.h"
#include "caravan/data/atomic_file.h"
#include "caravan/data/element_count.h"
#include "caravan/data/gzip.h"

namespace caravan::data {

namespace {

static_assert(std::endian::native == std::endian::little);

struct TypeRow {
  uint8_t code;
  const char* name;
  int64_t bytes;
  DType dtype;  // as an array
};
constexpr TypeRow kTypes[] = {
    {0x08, "u8", 1, DType::u8},   {0x09, "i8", 1, DType::i32},  {0x0b, "i16", 2, DType::i32},
    {0x0c, "i32", 4, DType::i32}, {0x0d, "f32", 4, DType::f32}, {0x0e, "f64", 8, DType::f64},
};

constexpr size_t kMagicBytes = 4, kSizeBytes = 4;
constexpr int kMostAxes = 32;
constexpr size_t kLongestHeader = kMagicBytes + kSizeBytes * kMostAxes;
constexpr int64_t kLargestSize = UINT32_MAX;

uint32_t big_endian(std::string_view four) {
  uint32_t out = 0;
  for (const char c : four.substr(0, 4)) out = out << 8 | uint8_t(c);
  return out;
}

// Copies n elements of `bytes` bytes each and turns each around.
void copy_reversed(std::byte* to, const char* from, int64_t n, int64_t bytes) {
  if (n == 0) return;
  std::memcpy(to, from, size_t(n * bytes));
  if (bytes > 1)
    for (int64_t i = 0; i < n; ++i) std::reverse(to + i * bytes, to + (i + 1) * bytes);
}

class Parser {
 public:
  Parser(std::string_view content, const std::string& file) : content_(content), file_(file) {}

  Array run() const {
    const TypeRow& type = this->type();
    const std::vector<int64_t> sizes = this->sizes();
    const std::string_view elements = content_.substr(kMagicBytes + kSizeBytes * sizes.size());
    const int64_t count = this->count(type, sizes), needed = count * type.bytes;
    if (uint64_t(needed) > elements.size())
      refuse(
          fmt::format("its header promises {} elements of {}, {} bytes, but {} bytes follow; it is truncated or "
                      "damaged",
                      fmt::join(sizes, "×"), type.name, needed, elements.size()));
    if (uint64_t(needed) < elements.size())
      refuse(fmt::format("{} elements of {} need {} bytes, but {} more follow", fmt::join(sizes, "×"), type.name,
                         needed, elements.size() - uint64_t(needed)));
    return array(type, sizes, elements, count);
  }

  // How long the whole content must be, by its header: the rest may be missing.
  uint64_t promised() const {
    const TypeRow& type = this->type();
    const std::vector<int64_t> sizes = this->sizes();
    return kMagicBytes + kSizeBytes * sizes.size() + uint64_t(count(type, sizes) * type.bytes);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw ConfigError(
        fmt::format("`{}` is not a usable IDX file: {}. Fetch it again, or give another.", file_, problem));
  }

  const TypeRow& type() const {
    if (content_.size() < kMagicBytes)
      refuse(fmt::format("it has {} bytes, and its first {} say what it is", content_.size(), kMagicBytes));
    if (content_[0] != 0 || content_[1] != 0)
      refuse(fmt::format("it begins with the bytes {:02x} {:02x} instead of 00 00", uint8_t(content_[0]),
                         uint8_t(content_[1])));
    for (const TypeRow& row : kTypes)
      if (row.code == uint8_t(content_[2])) return row;
    refuse(
        fmt::format("its elements have the unknown type {:02x}; there are 08 u8, 09 i8, 0b i16, 0c i32, 0d f32 and "
                    "0e f64",
                    uint8_t(content_[2])));
  }

  std::vector<int64_t> sizes() const {
    const int axes = uint8_t(content_[3]);
    if (axes == 0 || axes > kMostAxes)
      refuse(fmt::format("it has {} axes, and from 1 to {} can be read", axes, kMostAxes));
    if (content_.size() < kMagicBytes + kSizeBytes * size_t(axes))
      refuse(fmt::format("its {} bytes end within the sizes of its {} axes; it is truncated", content_.size(), axes));
    std::vector<int64_t> out;
    for (int i = 0; i < axes; ++i)
      out.push_back(big_endian(content_.substr(kMagicBytes + kSizeBytes * size_t(i), kSizeBytes)));
    return out;
  }

  int64_t count(const TypeRow& type, const std::vector<int64_t>& sizes) const {
    if (const std::optional<int64_t> out = element_count(sizes)) return *out;
    refuse(fmt::format("its header promises {} elements of {}, more bytes than can be counted; it is damaged",
                       fmt::join(sizes, "×"), type.name));
  }

  static Array array(const TypeRow& type, const std::vector<int64_t>& sizes, std::string_view elements, int64_t n) {
    Shape shape;
    for (const int64_t size : sizes) (shape.batch.empty() ? shape.batch : shape.output).push_back({size});
    Array out(shape, type.dtype);
    auto* to = static_cast<std::byte*>(out.mutable_data());
    if (type.bytes == bytes(type.dtype)) {
      copy_reversed(to, elements.data(), n, type.bytes);
      return out;
    }
    for (int64_t i = 0; i < n; ++i) {  // i8, i16
      int64_t value = int8_t(elements[size_t(i * type.bytes)]);
      if (type.bytes == 2) value = value << 8 | uint8_t(elements[size_t(i * 2 + 1)]);
      store(type.dtype, to, i, double(value));
    }
    return out;
  }

  std::string_view content_;
  const std::string& file_;
};

}  // namespace

Array parse_idx(std::string_view content, const std::string& file) {
  if (!is_gzip(content)) return Parser(content, file).run();
  const uint64_t promised = Parser(gunzip_start(content, file, kLongestHeader), file).promised();
  if (promised > kLargestUnpacked)
    throw ConfigError(
        fmt::format("`{}` promises to unpack to {} bytes, and at most {} are read.", file, promised, kLargestUnpacked));
  return Parser(gunzip(content, file, promised, "what its header promises"), file).run();
}

Array read_idx(const std::string& path) { return parse_idx(read_file(path), path); }

std::string idx_content(const Array& array) {
  const std::vector<int64_t> sizes = array.shape().sizes();
  const auto row = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& r) {
    return r.dtype == array.dtype() && r.bytes == bytes(array.dtype());
  });
  if (row == std::end(kTypes))
    throw ConfigError(
        fmt::format("an IDX file has u8, i32, f32 or f64, not {}; `cast` the array first.", name(array.dtype())));
  if (sizes.empty() || sizes.size() > kMostAxes)
    throw ConfigError(fmt::format("an IDX file has from 1 to {} axes, and the array has {}.", kMostAxes, sizes.size()));
  std::string out{0, 0, char(row->code), char(sizes.size())};
  for (const int64_t size : sizes) {
    if (size > kLargestSize)
      throw ConfigError(fmt::format("an axis of an IDX file has at most {} positions, not {}.", kLargestSize, size));
    for (int shift = 24; shift >= 0; shift -= 8) out += char(uint8_t(size >> shift));
  }
  const size_t header = out.size();
  out.resize(header + size_t(array.size() * row->bytes));
  copy_reversed(reinterpret_cast<std::byte*>(out.data() + header), static_cast<const char*>(array.data()), array.size(),
                row->bytes);
  return out;
}

void write_idx(const std::string& path, const Array& array) { write_file(path, idx_content(array)); }

}  // namespace caravan::data
