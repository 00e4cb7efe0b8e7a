// NumPy's files: one array (.npy, versions 1 to 3) and arrays by name (.npz, a zip of them).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "caravan/array/array.h"
#include "caravan/data/byte_source.h"

namespace caravan::data {

using NamedArrays = std::map<std::string, Array, std::less<>>;  // what a .npz file holds

// All axes are output axes, C or Fortran order, either endianness. bool, u8, i32, i64, f16, f32 and f64 stay what they
// are; i8, i16 and u16 become i32, u32 and u64 become i64 (refused where a value does not fit). What is packed is
// unpacked straight into the arrays, no more than the headers promise and the limit allows. ConfigError, one sentence,
// for everything that is wrong with a file; `file` names it in the message.
Array read_npy(const std::string& path, const ReadLimits& limits = {}, Source where = Source::here());
Array parse_npy(std::string_view content, const std::string& file,
                Source where = Source::here());  // one array from bytes in memory
NamedArrays read_npz(const std::string& path, const ReadLimits& limits = {},
                     Source where = Source::here());  // all arrays of a .npz file
// The same from bytes in memory.
NamedArrays parse_npz(std::string_view content, const std::string& file, const ReadLimits& limits = {},
                      Source where = Source::here());

// The axes in memory order, little endian. ConfigError for bf16, which NumPy does not have.
void write_npy(const std::string& path, const Array& array, Source where = Source::here());
std::string npy_content(const Array& array, Source where = Source::here());  // the bytes that write_npy writes

enum class Packing : uint8_t { stored, deflated };  // as it is, or compressed
// Equal arrays give equal bytes.
void write_npz(const std::string& path, const NamedArrays& arrays, Packing packing = Packing::stored,
               Source where = Source::here());
// The bytes that write_npz writes.
std::string npz_content(const NamedArrays& arrays, Packing packing = Packing::stored, Source where = Source::here());

}  // namespace caravan::data
