// safetensors files: tensors by name, and a map of texts.
//
// A file is the length of its header as 8 bytes (little endian), the header in JSON, and the elements. Reading is
// strict: the tensors must cover the elements exactly, without overlap, no name may appear twice, and a tensor has at
// most 64 axes.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "caravan/array/array.h"

namespace caravan::data {

// In the order of the format, which writes the widest first.
enum class StoredType : uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64
};
inline constexpr int kStoredTypeCount = 15;  // how many types the format has

std::string_view name(StoredType type);       // "BOOL", "U8", ... as in the file
int64_t bytes(StoredType type);               // of one element
std::optional<DType> dtype(StoredType type);  // none: the file may hold it, but Caravan does not compute with it

// A tensor as it is in the file.
struct StoredTensor {
  StoredType type = StoredType::f32;  // of its elements
  std::vector<int64_t> sizes{};       // of its axes
  std::vector<std::byte> elements{};  // packed, the last axis innermost
};
StoredTensor stored(const Array& array);              // its axes in memory order
StoredTensor transposed(const StoredTensor& matrix);  // the axes of a matrix exchanged

// The contents of a file.
struct Tensors {
  std::map<std::string, StoredTensor, std::less<>> list{};  // by name
  std::map<std::string, std::string> metadata{};            // texts by name

  const StoredTensor* find(std::string_view name) const;  // none: a null pointer
  Array array(std::string_view name, Source where = Source::here())
      const;  // all axes are output axes; ConfigError if missing or without a DType
};

// ConfigError, one sentence, for everything that is wrong with a file. `file` names it in the message.
Tensors read_safetensors(const std::string& path, Source where = Source::here());
Tensors parse_safetensors(std::string_view content, const std::string& file,
                          Source where = Source::here());  // the same from bytes in memory

// Equal tensors give equal bytes. The file appears under its name complete, or not at all.
void write_safetensors(const std::string& path, const Tensors& tensors, Source where = Source::here());
std::string safetensors_content(const Tensors& tensors,
                                Source where = Source::here());  // the bytes that write_safetensors writes

}  // namespace caravan::data
