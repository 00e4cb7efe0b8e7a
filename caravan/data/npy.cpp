#include "caravan/data/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#include "caravan/base/error.h"
#include "caravan/data/atomic_file.h"
#include "caravan/data/element_count.h"
#include "caravan/data/gzip.h"
#include "caravan/data/json_text.h"
#include "caravan/data/zip.h"

namespace caravan::data {

namespace {

static_assert(std::endian::native == std::endian::little);

struct TypeRow {
  std::string_view code;  // without its endianness
  int64_t bytes;
  DType dtype;  // as an array
};
constexpr TypeRow kTypes[] = {
    {"b1", 1, DType::boolean}, {"u1", 1, DType::u8},  {"i1", 1, DType::i32}, {"i2", 2, DType::i32},
    {"u2", 2, DType::i32},     {"i4", 4, DType::i32}, {"u4", 4, DType::i64}, {"i8", 8, DType::i64},
    {"u8", 8, DType::i64},     {"f2", 2, DType::f16}, {"f4", 4, DType::f32}, {"f8", 8, DType::f64},
};

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostAxes = 64;  // NumPy's own limit
constexpr size_t kAlignment = 64;

struct Header {
  const TypeRow* type = nullptr;
  bool big_endian = false, fortran_order = false;
  std::vector<int64_t> sizes;
};

// The header is one dictionary of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class Parser {
 public:
  Parser(std::string_view content, const std::string& file) : content_(content), file_(file) {}

  Array run() {
    rest_ = header_text();
    const Header header = parse();
    const int64_t n = elements(header);
    std::vector<std::byte> packed(elements_.size());
    if (!packed.empty()) std::memcpy(packed.data(), elements_.data(), packed.size());
    const int64_t width = header.type->bytes;
    if (header.big_endian)
      for (int64_t i = 0; i < n; ++i) std::reverse(packed.data() + i * width, packed.data() + (i + 1) * width);
    if (header.fortran_order) packed = in_c_order(packed, header);
    return array(header, packed, n);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw ConfigError(fmt::format("`{}` is not a usable .npy file: {}.", file_, problem));
  }

  // Also finds where the elements begin.
  std::string_view header_text() {
    if (!content_.starts_with(kMagic)) refuse("it does not begin with \\x93NUMPY");
    const size_t after = kMagic.size();
    if (content_.size() < after + 2) refuse("it ends within its version");
    const int version = uint8_t(content_[after]);
    if (version < 1 || version > 3) refuse(fmt::format("it has version {}, and 1 to 3 can be read", version));
    const size_t width = version == 1 ? 2 : 4, begin = after + 2 + width;
    if (content_.size() < begin) refuse("it ends within the length of its header");
    size_t length = 0;
    for (size_t i = 0; i < width; ++i) length |= size_t(uint8_t(content_[after + 2 + i])) << (8 * i);
    if (length > content_.size() - begin)
      refuse(fmt::format("its header would have {} bytes, but only {} follow; it is truncated", length,
                         content_.size() - begin));
    elements_ = content_.substr(begin + length);
    return content_.substr(begin, length);
  }

  Header parse() {
    Header out;
    bool has_type = false, has_order = false, has_shape = false;
    expect('{');
    while (!take('}')) {
      const std::string key = text();
      expect(':');
      auto once = [&](bool& has) {
        if (has) refuse(fmt::format("its header has {} twice", shown(key)));
        has = true;
      };
      if (key == "descr")
        once(has_type), read_type(out);
      else if (key == "fortran_order")
        once(has_order), out.fortran_order = truth();
      else if (key == "shape")
        once(has_shape), out.sizes = tuple();
      else
        refuse(fmt::format("its header has the unknown field {}", shown(key)));
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) refuse(fmt::format("{} follows its header", shown(rest_.substr(0, 8))));
    if (!has_type || !has_order || !has_shape) refuse("its header lacks `descr`, `fortran_order` or `shape`");
    return out;
  }

  void skip_space() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) rest_.remove_prefix(1);
  }
  bool take(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool take(char c) { return take(std::string_view(&c, 1)); }
  void expect(char c) {
    if (take(c)) return;
    refuse(rest_.empty() ? fmt::format("its header ends where `{}` should be", c)
                         : fmt::format("its header has {} where `{}` should be", shown(rest_.substr(0, 8)), c));
  }
  std::string text() {
    skip_space();
    const char quote = rest_.starts_with('"') ? '"' : '\'';
    expect(quote);
    const size_t end = rest_.find(quote);
    if (end == rest_.npos) refuse("a text of its header has no end");
    const std::string out(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return out;
  }
  bool truth() {
    if (take("True")) return true;
    if (take("False")) return false;
    refuse(fmt::format("`fortran_order` must be True or False, not {}", shown(rest_.substr(0, 8))));
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> out;
    expect('(');
    while (!take(')')) {
      skip_space();
      int64_t size = -1;
      const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc() || size < 0)
        refuse(fmt::format("`shape` must have whole numbers, not {}", shown(rest_.substr(0, 20))));
      rest_.remove_prefix(size_t(stop - rest_.data()));
      out.push_back(size);
      if (out.size() > kMostAxes) refuse(fmt::format("it has more than {} axes", kMostAxes));
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }
  void read_type(Header& out) {
    skip_space();
    if (rest_.starts_with('[')) refuse("its elements are records; save one field of them as an array of its own");
    const std::string code = text();
    if (code.size() == 3 && std::string_view("<>|=").find(code[0]) != std::string_view::npos)
      for (const TypeRow& row : kTypes)
        if (code.substr(1) == row.code) out.type = &row;
    if (!out.type || (code[0] == '|' && out.type->bytes > 1))
      refuse(
          fmt::format("its elements have the type {}, which cannot be read; `astype` float32 in NumPy", shown(code)));
    out.big_endian = code[0] == '>';
  }

  int64_t elements(const Header& header) const {
    const std::optional<int64_t> count = element_count(header.sizes);
    const int64_t needed = count ? *count * header.type->bytes : 0;
    if (!count || uint64_t(needed) != elements_.size())
      refuse(fmt::format("shape ({}) of {} needs {} bytes, but {} follow the header", fmt::join(header.sizes, ", "),
                         header.type->code, count ? std::to_string(needed) : "more than can be counted",
                         elements_.size()));
    return *count;
  }

  // The first axis is innermost in the file; counts through the array in C order.
  static std::vector<std::byte> in_c_order(const std::vector<std::byte>& from, const Header& header) {
    const size_t axes = header.sizes.size(), width = size_t(header.type->bytes);
    std::vector<size_t> stride(axes), at(axes);
    size_t step = width;
    for (size_t i = 0; i < axes; ++i) stride[i] = step, step *= size_t(header.sizes[i]);
    std::vector<std::byte> out(from.size());
    size_t source = 0;
    for (size_t target = 0; target < out.size(); target += width) {
      std::memcpy(&out[target], &from[source], width);
      for (size_t axis = axes; axis-- > 0;) {
        source += stride[axis];
        if (++at[axis] < size_t(header.sizes[axis])) break;
        source -= stride[axis] * at[axis];
        at[axis] = 0;
      }
    }
    return out;
  }

  Array array(const Header& header, const std::vector<std::byte>& packed, int64_t n) const {
    Shape shape;
    for (const int64_t size : header.sizes) shape.output.push_back({size});
    Array out(shape, header.type->dtype);
    const std::string_view code = header.type->code;
    auto* to = static_cast<std::byte*>(out.mutable_data());
    auto convert = [&]<class From, class To>(From, To) {
      for (int64_t i = 0; i < n; ++i) {
        From value;
        std::memcpy(&value, packed.data() + i * int64_t(sizeof value), sizeof value);
        if (!std::in_range<To>(value))
          refuse(fmt::format("element {} is {}, and i64 is the widest that can be had", i, value));
        const To stored = To(value);
        std::memcpy(to + i * int64_t(sizeof stored), &stored, sizeof stored);
      }
    };
    if (code == "i1")
      convert(int8_t(), int32_t());
    else if (code == "i2")
      convert(int16_t(), int32_t());
    else if (code == "u2")
      convert(uint16_t(), int32_t());
    else if (code == "u4")
      convert(uint32_t(), int64_t());
    else if (code == "u8")
      convert(uint64_t(), int64_t());
    else if (code == "b1")
      for (int64_t i = 0; i < n; ++i) to[i] = std::byte(packed[size_t(i)] != std::byte(0));
    else if (!packed.empty())
      std::memcpy(to, packed.data(), packed.size());
    return out;
  }

  std::string_view content_, rest_, elements_;
  const std::string& file_;
};

}  // namespace

Array parse_npy(std::string_view content, const std::string& file) { return Parser(content, file).run(); }

Array read_npy(const std::string& path) { return parse_npy(read_unpacked(path), path); }

std::string npy_content(const Array& array) {
  const TypeRow* type = nullptr;
  for (const TypeRow& row : kTypes)
    if (row.dtype == array.dtype() && row.bytes == bytes(array.dtype()) && row.code != "u8") type = &row;
  if (!type) throw ConfigError(fmt::format("NumPy has no {}; `cast` the array to f32 first.", name(array.dtype())));
  const std::vector<int64_t> sizes = array.shape().sizes();
  std::string header =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}", type->bytes == 1 ? '|' : '<',
                  type->code, fmt::join(sizes, ", "), sizes.size() == 1 ? "," : "");
  const size_t before = kMagic.size() + 2 + 2;  // magic, version 1.0, length
  header.resize((before + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - before, ' ');
  header.back() = '\n';
  CARAVAN_CHECK(header.size() <= UINT16_MAX, "64 axes of 19 digits fit");
  std::string out(kMagic);
  out += {1, 0, char(uint8_t(header.size())), char(uint8_t(header.size() >> 8))};
  out += header;
  if (array.size() > 0) out.append(static_cast<const char*>(array.data()), size_t(array.size() * type->bytes));
  return out;
}

void write_npy(const std::string& path, const Array& array) { write_file(path, npy_content(array)); }

NamedArrays parse_npz(std::string_view content, const std::string& file) {
  constexpr std::string_view kSuffix = ".npy";
  NamedArrays out;
  for (const ZipEntry& entry : parse_zip(content, file)) {
    if (!entry.name.ends_with(kSuffix))
      throw ConfigError(fmt::format("`{}` is not a usable .npz file: {} is not a .npy file.", file, shown(entry.name)));
    const std::string name = entry.name.substr(0, entry.name.size() - kSuffix.size());
    out.emplace(name, parse_npy(entry.content, fmt::format("{}: {}", file, entry.name)));
  }
  return out;
}

NamedArrays read_npz(const std::string& path) { return parse_npz(read_unpacked(path), path); }

std::string npz_content(const NamedArrays& arrays, Packing packing) {
  std::vector<ZipEntry> entries;
  for (const auto& [name, array] : arrays) entries.push_back({name + ".npy", npy_content(array)});
  return zip_content(entries, packing == Packing::deflated);
}

void write_npz(const std::string& path, const NamedArrays& arrays, Packing packing) {
  write_file(path, npz_content(arrays, packing));
}

}  // namespace caravan::data
