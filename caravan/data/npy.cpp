#include "caravan/data/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <memory>
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

struct NpyType {
  std::string_view code;  // without its endianness
  int64_t bytes;
  DType dtype;  // as an array
};
constexpr NpyType kNpyTypes[] = {
    {"b1", 1, DType::boolean}, {"u1", 1, DType::u8},  {"i1", 1, DType::i32}, {"i2", 2, DType::i32},
    {"u2", 2, DType::i32},     {"i4", 4, DType::i32}, {"u4", 4, DType::i64}, {"i8", 8, DType::i64},
    {"u8", 8, DType::i64},     {"f2", 2, DType::f16}, {"f4", 4, DType::f32}, {"f8", 8, DType::f64},
};

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostNpyAxes = 64;  // NumPy's own limit
constexpr size_t kNpyAlignment = 64;
constexpr size_t kLongestNpyHeader = 1 << 20;  // 64 axes take a thousandth of it

struct Header {
  const NpyType* type = nullptr;
  bool big_endian = false, fortran_order = false;
  std::vector<int64_t> sizes;
};

// The header is one dictionary of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class NpyParser {
 public:
  // `most`: bytes of elements that are read.
  NpyParser(ByteSource& source, const std::string& file, uint64_t most) : source_(source), file_(file), most_(most) {}

  Array run() {
    const std::string text = header_text();
    rest_ = text;
    const Header header = parse();
    const int64_t n = element_count(header);
    return array(header, n);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw ConfigError(fmt::format("`{}` is not a usable .npy file: {}.", file_, problem));
  }

  // The next n bytes, or fewer at the end.
  std::string bytes(size_t n) {
    std::string out(n, '\0');
    out.resize(source_.read(out.data(), n));
    return out;
  }

  std::string header_text() {
    if (bytes(kMagic.size()) != kMagic) refuse("it does not begin with \\x93NUMPY");
    const std::string numbers = bytes(2);
    if (numbers.size() < 2) refuse("it ends within its version");
    const int version = uint8_t(numbers[0]);
    if (version < 1 || version > 3) refuse(fmt::format("it has version {}, and 1 to 3 can be read", version));
    const std::string written = bytes(version == 1 ? 2 : 4);
    if (written.size() < (version == 1 ? 2 : 4)) refuse("it ends within the length of its header");
    size_t length = 0;
    for (size_t i = 0; i < written.size(); ++i) length |= size_t(uint8_t(written[i])) << (8 * i);
    if (length > source_.most())
      refuse(
          fmt::format("its header would have {} bytes, but only {} follow; it is truncated", length, source_.most()));
    if (length > kLongestNpyHeader)
      refuse(fmt::format("its header would have {} bytes, and {} is the most there may be", length, kLongestNpyHeader));
    std::string out = bytes(length);
    if (out.size() < length)
      refuse(fmt::format("its header would have {} bytes, but only {} follow; it is truncated", length, out.size()));
    return out;
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
      if (out.size() > kMostNpyAxes) refuse(fmt::format("it has more than {} axes", kMostNpyAxes));
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
      for (const NpyType& row : kNpyTypes)
        if (code.substr(1) == row.code) out.type = &row;
    if (!out.type || (code[0] == '|' && out.type->bytes > 1))
      refuse(
          fmt::format("its elements have the type {}, which cannot be read; `astype` float32 in NumPy", shown(code)));
    out.big_endian = code[0] == '>';
  }

  [[noreturn]] void refuse_length(const Header& header, const std::string& needed, const std::string& there) const {
    refuse(fmt::format("shape ({}) of {} needs {} bytes, but {} the header", fmt::join(header.sizes, ", "),
                       header.type->code, needed, there));
  }

  int64_t element_count(const Header& header) const {
    const std::optional<int64_t> count = data::element_count(header.sizes);
    if (!count) refuse_length(header, "more than can be counted", fmt::format("{} follow", source_.most()));
    const uint64_t needed = uint64_t(*count * header.type->bytes);
    if (needed > most_)
      refuse(fmt::format("shape ({}) of {} needs {} bytes, and at most {} are unpacked (ReadLimits raises it)",
                         fmt::join(header.sizes, ", "), header.type->code, needed, most_));
    if (needed > source_.most())
      refuse_length(header, std::to_string(needed), fmt::format("{} follow", source_.most()));
    return *count;
  }

  // Reads all elements, as the file has them.
  void read_elements(const Header& header, std::byte* to, int64_t n) {
    const size_t needed = size_t(n * header.type->bytes), got = source_.read(to, needed);
    if (got < needed) refuse_length(header, std::to_string(needed), fmt::format("{} follow", got));
    constexpr uint64_t kCounted = 1 << 20;
    if (const uint64_t more = count_rest(source_, kCounted); more > 0)
      refuse_length(header, std::to_string(needed),
                    fmt::format("{}{} follow", more == kCounted ? "at least " : "", needed + more));
    if (header.big_endian)
      for (int64_t i = 0; i < n; ++i) std::reverse(to + i * header.type->bytes, to + (i + 1) * header.type->bytes);
  }

  // The first axis is innermost in the file; counts through the array in C order.
  static void to_c_order(std::byte* elements, size_t bytes, const Header& header) {
    const std::vector<std::byte> from(elements, elements + bytes);
    const size_t axes = header.sizes.size(), width = size_t(header.type->bytes);
    std::vector<size_t> stride(axes), at(axes);
    size_t step = width;
    for (size_t i = 0; i < axes; ++i) stride[i] = step, step *= size_t(header.sizes[i]);
    size_t source = 0;
    for (size_t target = 0; target < bytes; target += width) {
      std::memcpy(elements + target, &from[source], width);
      for (size_t axis = axes; axis-- > 0;) {
        source += stride[axis];
        if (++at[axis] < size_t(header.sizes[axis])) break;
        source -= stride[axis] * at[axis];
        at[axis] = 0;
      }
    }
  }

  Array array(const Header& header, int64_t n) {
    Shape shape;
    for (const int64_t size : header.sizes) shape.output.push_back({size});
    Array out(shape, header.type->dtype);
    const std::string_view code = header.type->code;
    auto* to = static_cast<std::byte*>(out.mutable_data());
    // Narrow ones are read into the end of the array and widened from its beginning: never past what is to be read.
    std::byte* packed = to + (caravan::bytes(header.type->dtype) - header.type->bytes) * n;
    read_elements(header, packed, n);
    if (header.fortran_order) to_c_order(packed, size_t(n * header.type->bytes), header);
    auto convert = [&]<class From, class To>(From, To) {
      for (int64_t i = 0; i < n; ++i) {
        From value;
        std::memcpy(&value, packed + i * int64_t(sizeof value), sizeof value);
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
      for (int64_t i = 0; i < n; ++i) to[i] = std::byte(to[i] != std::byte(0));
    return out;
  }

  ByteSource& source_;
  const std::string& file_;
  const uint64_t most_;
  std::string_view rest_;  // of the header
};

}  // namespace

Array parse_npy(std::string_view content, const std::string& file, Source where) {
  const WrittenAt at(where);
  TextSource source(content);
  return NpyParser(source, file, UINT64_MAX).run();
}

Array read_npy(const std::string& path, const ReadLimits& limits, Source where) {
  const WrittenAt at(where);
  return naming_memory(path, [&] {
    const std::string content = read_file(path);
    if (!is_gzip(content)) return parse_npy(content, path);
    const std::unique_ptr<ByteSource> source = gunzipping(content, path);
    return NpyParser(*source, path, limits.unpacked).run();
  });
}

std::string npy_content(const Array& array, Source where) {
  const WrittenAt at(where);
  const NpyType* type = nullptr;
  for (const NpyType& row : kNpyTypes)
    if (row.dtype == array.dtype() && row.bytes == bytes(array.dtype()) && row.code != "u8") type = &row;
  if (!type) throw ConfigError(fmt::format("NumPy has no {}; `cast` the array to f32 first.", name(array.dtype())));
  const std::vector<int64_t> sizes = array.shape().sizes();
  std::string header =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}", type->bytes == 1 ? '|' : '<',
                  type->code, fmt::join(sizes, ", "), sizes.size() == 1 ? "," : "");
  const size_t before = kMagic.size() + 2 + 2;  // magic, version 1.0, length
  header.resize((before + header.size() + 1 + kNpyAlignment - 1) / kNpyAlignment * kNpyAlignment - before, ' ');
  header.back() = '\n';
  CARAVAN_CHECK(header.size() <= UINT16_MAX, "64 axes of 19 digits fit");
  std::string out(kMagic);
  out += {1, 0, char(uint8_t(header.size())), char(uint8_t(header.size() >> 8))};
  out += header;
  if (array.size() > 0) out.append(static_cast<const char*>(array.data()), size_t(array.size() * type->bytes));
  return out;
}

void write_npy(const std::string& path, const Array& array, Source where) {
  const WrittenAt at(where);
  write_file(path, npy_content(array));
}

NamedArrays parse_npz(std::string_view content, const std::string& file, const ReadLimits& limits, Source where) {
  const WrittenAt at(where);
  constexpr std::string_view kSuffix = ".npy";
  NamedArrays out;
  for (const ZipItem& item : zip_items(content, file, limits)) {
    if (!item.name.ends_with(kSuffix))
      throw ConfigError(fmt::format("`{}` is not a usable .npz file: {} is not a .npy file.", file, shown(item.name)));
    const std::string name = item.name.substr(0, item.name.size() - kSuffix.size());
    const std::string within = fmt::format("{}: {}", file, item.name);
    out.emplace(name, NpyParser(*open(item), within, UINT64_MAX).run());
  }
  return out;
}

NamedArrays read_npz(const std::string& path, const ReadLimits& limits, Source where) {
  const WrittenAt at(where);
  return naming_memory(path, [&] { return parse_npz(read_unpacked(path, limits), path, limits); });
}

std::string npz_content(const NamedArrays& arrays, Packing packing, Source where) {
  const WrittenAt at(where);
  std::vector<ZipEntry> entries;
  for (const auto& [name, array] : arrays) entries.push_back({name + ".npy", npy_content(array)});
  return zip_content(entries, packing == Packing::deflated);
}

void write_npz(const std::string& path, const NamedArrays& arrays, Packing packing, Source where) {
  const WrittenAt at(where);
  write_file(path, npz_content(arrays, packing));
}

}  // namespace caravan::data
