#include "caravan/data/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "caravan/base/error.h"
#include "caravan/data/atomic_file.h"
#include "caravan/data/json_text.h"

namespace caravan::data {

namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // the format's own limit
constexpr size_t kDeepestHeader = 3;              // {tensor: {shape: [size]}}
constexpr size_t kMostSafetensorsAxes = 64;       // of a tensor, as in NumPy; no other list of a header is longer
constexpr size_t kSafetensorsAlignment = 8;
constexpr const char* kMetadata = "__metadata__";

struct SafetensorsType {
  StoredType type;
  const char* name;
  int64_t bytes;
  std::optional<DType> dtype;
};
constexpr SafetensorsType kSafetensorsTypes[] = {
    {StoredType::boolean, "BOOL", 1, DType::boolean},
    {StoredType::u8, "U8", 1, DType::u8},
    {StoredType::i8, "I8", 1, {}},
    {StoredType::f8_e5m2, "F8_E5M2", 1, {}},
    {StoredType::f8_e4m3, "F8_E4M3", 1, {}},
    {StoredType::i16, "I16", 2, {}},
    {StoredType::u16, "U16", 2, {}},
    {StoredType::f16, "F16", 2, DType::f16},
    {StoredType::bf16, "BF16", 2, DType::bf16},
    {StoredType::i32, "I32", 4, DType::i32},
    {StoredType::u32, "U32", 4, {}},
    {StoredType::f32, "F32", 4, DType::f32},
    {StoredType::f64, "F64", 8, DType::f64},
    {StoredType::i64, "I64", 8, DType::i64},
    {StoredType::u64, "U64", 8, {}},
};
static_assert(std::size(kSafetensorsTypes) == kStoredTypeCount);
static_assert([] {
  for (int i = 0; i < kStoredTypeCount; ++i)
    if (int(kSafetensorsTypes[i].type) != i) return false;
  return true;
}());

const SafetensorsType& row(StoredType type) { return kSafetensorsTypes[size_t(type)]; }

// Elements times width, or nothing where that overflows.
std::optional<uint64_t> bytes_of(StoredType type, const std::vector<int64_t>& sizes) {
  uint64_t out = uint64_t(row(type).bytes);
  for (const int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(out, uint64_t(size), &out)) return std::nullopt;
  return out <= uint64_t(INT64_MAX) ? std::optional(out) : std::nullopt;
}

std::string text_of(const std::vector<int64_t>& sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }

// Reads one file. Nothing of it is trusted.
class SafetensorsParser {
 public:
  SafetensorsParser(std::string_view content, const std::string& file) : content_(content), file_(file) {}

  Tensors run() {
    const std::string_view header = header_text();
    elements_ = content_.substr(kLengthBytes + header.size());
    const Json json = parse(header);
    Tensors out;
    for (const auto& [name, value] : json.items()) {
      if (name == kMetadata)
        out.metadata = metadata(value);
      else
        out.list.emplace(name, tensor(name, value));
    }
    check_cover();
    return out;
  }

 private:
  struct Range {
    uint64_t begin, end;
    std::string_view name;
    bool operator<(const Range& other) const { return std::tie(begin, end) < std::tie(other.begin, other.end); }
  };

  [[noreturn]] void refuse(const std::string& problem) const {
    throw ConfigError(fmt::format("`{}` is not a usable safetensors file: {}.", file_, problem));
  }

  std::string_view header_text() const {
    if (content_.size() < kLengthBytes)
      refuse(
          fmt::format("it has {} bytes, and the length of the header alone takes {}", content_.size(), kLengthBytes));
    uint64_t length = 0;
    for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t(uint8_t(content_[i])) << (8 * i);
    if (length > kLargestHeader) refuse("it does not begin with the length of a header, so it is another kind of file");
    if (length > content_.size() - kLengthBytes)
      refuse(fmt::format("its header would have {} bytes, but only {} follow; it is truncated", length,
                         content_.size() - kLengthBytes));
    return content_.substr(kLengthBytes, length);
  }

  Json parse(std::string_view header) const {
    if (!header.starts_with('{')) refuse("its header does not begin with `{`");
    if (const auto problem = json_problem(header, kDeepestHeader, kMostSafetensorsAxes))
      refuse("its header " + *problem);
    return Json::parse(header);
  }

  std::map<std::string, std::string> metadata(const Json& value) const {
    std::map<std::string, std::string> out;
    if (!value.is_object()) refuse(fmt::format("its {} is not a map of texts", kMetadata));
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) refuse(fmt::format("{} of its {} is not a text", shown(key), kMetadata));
      out[key] = text.get<std::string>();
    }
    return out;
  }

  const Json& field(const std::string& name, const Json& tensor, const char* key) const {
    const auto at = tensor.find(key);
    if (at == tensor.end()) refuse(fmt::format("tensor {} has no `{}`", shown(name), key));
    return *at;
  }

  uint64_t whole(const std::string& name, const Json& value, const char* key) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t(INT64_MAX))
      refuse(fmt::format("`{}` of tensor {} must have whole numbers", key, shown(name)));
    return value.get<uint64_t>();
  }

  StoredTensor tensor(const std::string& name, const Json& value) {
    if (!value.is_object()) refuse(fmt::format("tensor {} is not described by an object", shown(name)));
    for (const auto& [key, unused] : value.items())
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        refuse(fmt::format("tensor {} has the unknown field {}", shown(name), shown(key)));

    StoredTensor out;
    const Json& type = field(name, value, "dtype");
    const auto known = std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                                    [&](const SafetensorsType& r) { return type == r.name; });
    if (known == std::end(kSafetensorsTypes))
      refuse(fmt::format("tensor {} has the unknown dtype {}", shown(name),
                         shown(type.is_string() ? type.get<std::string>() : type.dump())));
    out.type = known->type;

    const Json& shape = field(name, value, "shape");
    if (!shape.is_array()) refuse(fmt::format("`shape` of tensor {} must be a list", shown(name)));
    for (const Json& size : shape) out.sizes.push_back(int64_t(whole(name, size, "shape")));
    const std::optional<uint64_t> expected = bytes_of(out.type, out.sizes);
    if (!expected)
      refuse(fmt::format("tensor {} of shape {} has more bytes than can be counted", shown(name), text_of(out.sizes)));

    const Json& offsets = field(name, value, "data_offsets");
    if (!offsets.is_array() || offsets.size() != 2)
      refuse(fmt::format("`data_offsets` of tensor {} must be two numbers", shown(name)));
    const uint64_t begin = whole(name, offsets[0], "data_offsets"), end = whole(name, offsets[1], "data_offsets");
    if (begin > end || end > elements_.size())
      refuse(fmt::format("tensor {} lies at {} to {} of {} bytes of elements; the file may be truncated", shown(name),
                         begin, end, elements_.size()));
    if (end - begin != *expected)
      refuse(fmt::format("tensor {}, {} of shape {}, needs {} bytes but has {}", shown(name), known->name,
                         text_of(out.sizes), *expected, end - begin));

    total_ += end - begin;  // bounds what overlapping tensors could make us copy; check_cover is exact
    if (total_ > elements_.size()) refuse(fmt::format("tensor {} overlaps another", shown(name)));
    out.elements.resize(end - begin);
    if (end > begin) std::memcpy(out.elements.data(), elements_.data() + begin, end - begin);
    ranges_.push_back({begin, end, name});
    return out;
  }

  void check_cover() {
    std::sort(ranges_.begin(), ranges_.end());
    uint64_t covered = 0;
    for (const Range& r : ranges_) {
      if (r.begin < covered) refuse(fmt::format("tensor {} overlaps another", shown(r.name)));
      if (r.begin > covered)
        refuse(fmt::format("bytes {} to {} before tensor {} belong to no tensor", covered, r.begin, shown(r.name)));
      covered = r.end;
    }
    if (covered < elements_.size())
      refuse(fmt::format("the last {} bytes belong to no tensor", elements_.size() - covered));
  }

  std::string_view content_, elements_;
  const std::string& file_;
  std::vector<Range> ranges_;
  uint64_t total_ = 0;
};

}  // namespace

std::string_view name(StoredType type) { return row(type).name; }
int64_t bytes(StoredType type) { return row(type).bytes; }
std::optional<DType> dtype(StoredType type) { return row(type).dtype; }

StoredTensor stored(const Array& array) {
  StoredTensor out;
  for (const SafetensorsType& r : kSafetensorsTypes)
    if (r.dtype == array.dtype()) out.type = r.type;
  out.sizes = array.shape().sizes();
  out.elements.resize(size_t(array.size() * bytes(out.type)));
  if (!out.elements.empty()) std::memcpy(out.elements.data(), array.data(), out.elements.size());
  return out;
}

StoredTensor transposed(const StoredTensor& matrix) {
  if (matrix.sizes.size() != 2)
    throw ShapeError(
        fmt::format("data::transposed takes a matrix, not a tensor of the sizes [{}].", fmt::join(matrix.sizes, ", ")));
  const size_t rows = size_t(matrix.sizes[0]), columns = size_t(matrix.sizes[1]), width = size_t(bytes(matrix.type));
  StoredTensor out{matrix.type, {matrix.sizes[1], matrix.sizes[0]}, std::vector<std::byte>(matrix.elements.size())};
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c)
      std::memcpy(&out.elements[(c * rows + r) * width], &matrix.elements[(r * columns + c) * width], width);
  return out;
}

const StoredTensor* Tensors::find(std::string_view name) const {
  const auto at = list.find(name);
  return at == list.end() ? nullptr : &at->second;
}

Array Tensors::array(std::string_view name, Source where) const {
  const WrittenAt at(where);
  const StoredTensor* tensor = find(name);
  if (!tensor) throw ConfigError(fmt::format("there is no tensor {}.", shown(name)));
  const std::optional<DType> type = dtype(tensor->type);
  if (!type)
    throw ConfigError(
        fmt::format("tensor {} is {}, which Caravan does not compute with.", shown(name), data::name(tensor->type)));
  Shape shape;
  for (const int64_t size : tensor->sizes) shape.output.push_back({size});
  Array out(shape, *type);
  if (!tensor->elements.empty()) std::memcpy(out.mutable_data(), tensor->elements.data(), tensor->elements.size());
  return out;
}

Tensors parse_safetensors(std::string_view content, const std::string& file, Source where) {
  const WrittenAt at(where);
  return SafetensorsParser(content, file).run();
}

Tensors read_safetensors(const std::string& path, Source where) {
  const WrittenAt at(where);
  return naming_memory(path, [&] { return parse_safetensors(read_file(path), path); });
}

std::string safetensors_content(const Tensors& tensors, Source where) {
  const WrittenAt written(where);
  std::vector<const std::pair<const std::string, StoredTensor>*> order;
  for (const auto& entry : tensors.list) order.push_back(&entry);
  // The widest type first, so that every tensor is aligned; the map has sorted the names.
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->second.type > b->second.type; });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!tensors.metadata.empty()) header[kMetadata] = tensors.metadata;
  uint64_t at = 0;
  for (const auto* entry : order) {
    const auto& [name, tensor] = *entry;
    if (name == kMetadata) throw ConfigError(fmt::format("a tensor cannot be called {}.", shown(name)));
    if (tensor.sizes.size() > kMostSafetensorsAxes)
      throw ConfigError(fmt::format("tensor {} has {} axes, and a safetensors file of Caravan has at most {}.",
                                    shown(name), tensor.sizes.size(), kMostSafetensorsAxes));
    if (bytes_of(tensor.type, tensor.sizes) != tensor.elements.size())
      throw ConfigError(fmt::format("tensor {}, {} of shape {}, cannot have {} bytes.", shown(name),
                                    data::name(tensor.type), text_of(tensor.sizes), tensor.elements.size()));
    header[name] = {{"dtype", data::name(tensor.type)},
                    {"shape", tensor.sizes},
                    {"data_offsets", {at, at + tensor.elements.size()}}};
    at += tensor.elements.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::ordered_json::exception&) {
    throw ConfigError("a name or text is not UTF-8, so it cannot be written to a safetensors file.");
  }
  text.resize((text.size() + kSafetensorsAlignment - 1) / kSafetensorsAlignment * kSafetensorsAlignment, ' ');
  if (text.size() > kLargestHeader)
    throw ConfigError(fmt::format("the names and shapes take {} bytes; a safetensors file has room for {}.",
                                  text.size(), kLargestHeader));

  std::string out;
  out.reserve(kLengthBytes + text.size() + at);
  for (size_t i = 0; i < kLengthBytes; ++i) out += char(uint8_t(uint64_t(text.size()) >> (8 * i)));
  out += text;
  for (const auto* entry : order) {
    const std::vector<std::byte>& elements = entry->second.elements;
    out.append(reinterpret_cast<const char*>(elements.data()), elements.size());
  }
  return out;
}

void write_safetensors(const std::string& path, const Tensors& tensors, Source where) {
  const WrittenAt at(where);
  write_file(path, safetensors_content(tensors));
}

}  // namespace caravan::data
