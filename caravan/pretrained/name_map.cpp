#include "caravan/pretrained/name_map.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "caravan/array/convert.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"

namespace caravan::pretrained {

using data::StoredTensor;
using data::StoredType;

namespace {

// "a.*.b" fits "a.1.2.b".
bool fits(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  return name.size() >= before.size() + after.size() && name.starts_with(before) && name.ends_with(after);
}

std::string in_block(std::string name, int64_t block) {
  if (const size_t at = name.find("{}"); at != name.npos) name.replace(at, 2, std::to_string(block));
  return name;
}

std::vector<MappedTensor> every_block(const NameMap& map) {
  std::vector<MappedTensor> out;
  for (const MappedTensor& row : map.tensors) {
    const bool repeated = row.ours.find("{}") != row.ours.npos;
    for (int64_t block = 0; block < (repeated ? map.blocks : 1); ++block) {
      MappedTensor one = row;
      one.ours = in_block(one.ours, block);
      for (std::string& name : one.theirs) name = in_block(name, block);
      out.push_back(std::move(one));
    }
  }
  return out;
}

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::vector<std::string> parts;
  for (int64_t size : sizes) parts.push_back(std::to_string(size));
  return "[" + joined(parts) + "]";
}

[[noreturn]] void refuse(const std::string& file, const std::string& problem) {
  throw ConfigError(file + ": " + problem);
}

// Floats as f32; other types are refused.
StoredTensor as_f32(const StoredTensor& tensor, const std::string& name, const std::string& file) {
  const std::optional<DType> dtype = data::dtype(tensor.type);
  if (!dtype || !is_float(*dtype))
    refuse(file, "the tensor `" + name + "` is of type " + std::string(data::name(tensor.type)) +
                     "; weights are floats: F32, F16, BF16 or F64.");
  if (*dtype == DType::f32) return tensor;
  const int64_t count = std::accumulate(tensor.sizes.begin(), tensor.sizes.end(), int64_t(1), std::multiplies<>());
  StoredTensor out{StoredType::f32, tensor.sizes, std::vector<std::byte>(size_t(count) * sizeof(float))};
  convert_elements(*dtype, tensor.elements.data(), DType::f32, out.elements.data(), count);
  return out;
}

// One after the other along the first axis.
StoredTensor joined_along_first(std::vector<StoredTensor> parts, const MappedTensor& row, const std::string& file) {
  StoredTensor out = std::move(parts[0]);
  for (size_t k = 1; k < parts.size(); ++k) {
    const StoredTensor& next = parts[k];
    if (out.sizes.empty() || next.sizes.size() != out.sizes.size() ||
        !std::equal(out.sizes.begin() + 1, out.sizes.end(), next.sizes.begin() + 1))
      refuse(file, "`" + row.theirs[0] + "` " + sizes_text(out.sizes) + " and `" + row.theirs[k] + "` " +
                       sizes_text(next.sizes) + " do not fit one after the other.");
    out.sizes[0] += next.sizes[0];
    out.elements.insert(out.elements.end(), next.elements.begin(), next.elements.end());
  }
  return out;
}

StoredTensor part_of(const StoredTensor& whole, const MappedTensor& row, const std::string& file) {
  if (whole.sizes.empty() || whole.sizes[0] % row.parts != 0)
    refuse(file, "`" + row.theirs[0] + "` " + sizes_text(whole.sizes) + " cannot be cut into " +
                     std::to_string(row.parts) + " equal parts.");
  StoredTensor out{whole.type, whole.sizes, {}};
  out.sizes[0] /= row.parts;
  const ptrdiff_t bytes = ptrdiff_t(whole.elements.size()) / row.parts;
  out.elements.assign(whole.elements.begin() + bytes * row.part, whole.elements.begin() + bytes * (row.part + 1));
  return out;
}

// Does each of the axes `whole` consist of one or more neighbours of `axes`, as 24 of 6 and 4?
bool consists_of(const std::vector<int64_t>& whole, const std::vector<int64_t>& axes) {
  auto next = axes.begin();
  for (const int64_t size : whole) {
    int64_t product = 1;
    while (next != axes.end() && product < size && *next <= size / product) product *= *next++;
    if (product != size) return false;
  }
  return std::all_of(next, axes.end(), [](int64_t size) { return size == 1; });
}

StoredTensor with_sizes(StoredTensor tensor, const MappedTensor& row, const std::string& file) {
  if (!consists_of(tensor.sizes, row.sizes))
    refuse(file, "`" + row.theirs[0] + "`" + (row.transposed ? ", transposed," : "") + " has the sizes " +
                     sizes_text(tensor.sizes) + "; the model has `" + row.ours + "` as " + sizes_text(row.sizes) + ".");
  tensor.sizes = row.sizes;
  return tensor;
}

}  // namespace

data::Tensors renamed(const data::Tensors& theirs, const NameMap& map, const std::string& file) {
  if (map.blocks > int64_t(theirs.list.size()))
    refuse(file, "it has " + std::to_string(theirs.list.size()) + " tensors, too few for the " +
                     std::to_string(map.blocks) + " blocks of the model.");
  const std::vector<MappedTensor> rows = every_block(map);
  std::set<std::string> wanted, missing, unknown;
  for (const MappedTensor& row : rows) wanted.insert(row.theirs.begin(), row.theirs.end());
  for (const std::string& name : wanted)
    if (!theirs.find(name)) missing.insert(name);
  for (const auto& [name, tensor] : theirs.list) {
    const bool ignored = std::any_of(map.ignored.begin(), map.ignored.end(),
                                     [&, &name = name](const std::string& pattern) { return fits(pattern, name); });
    if (!ignored && !wanted.count(name)) unknown.insert(name);
  }
  if (!missing.empty() || !unknown.empty())
    refuse(file, "its tensors are not those of the model." +
                     (missing.empty() ? "" : " Missing: " + joined(missing) + ".") +
                     (unknown.empty() ? "" : " Unknown: " + joined(unknown) + "."));
  data::Tensors out;
  for (const MappedTensor& row : rows) {
    std::vector<StoredTensor> parts;
    for (const std::string& name : row.theirs) parts.push_back(as_f32(*theirs.find(name), name, file));
    StoredTensor tensor = joined_along_first(std::move(parts), row, file);
    if (row.parts > 1) tensor = part_of(tensor, row, file);
    if (row.transposed) {
      if (tensor.sizes.size() != 2)
        refuse(file, "`" + row.theirs[0] + "` " + sizes_text(tensor.sizes) + " should be a matrix.");
      tensor = data::transposed(tensor);
    }
    if (!row.sizes.empty()) tensor = with_sizes(std::move(tensor), row, file);
    out.list.emplace(row.ours, std::move(tensor));
  }
  return out;
}

}  // namespace caravan::pretrained
