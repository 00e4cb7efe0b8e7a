#include "caravan/deploy/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "caravan/base/hash.h"
#include "caravan/base/random.h"
#include "caravan/codegen/words.h"

namespace caravan::deploy {

namespace {

constexpr size_t kTextColumns = 118;
constexpr std::string_view kMagic = "caravanw";
constexpr uint32_t kByteOrder = 0x01020304, kVersion = 1;

// Reads back as the same bits.
std::string element_text(const Array& array, int64_t index) {
  switch (array.dtype()) {
    case DType::f16:
    case DType::bf16: return fmt::format("0x{:04x}", static_cast<const uint16_t*>(array.data())[index]);
    case DType::i64: {
      const int64_t value = static_cast<const int64_t*>(array.data())[index];
      return value == INT64_MIN ? "INT64_MIN" : fmt::format("{}", value);
    }
    default: return codegen::literal(array.at(index), array.dtype());
  }
}

bool is_zero(const Array& array) {
  const auto* bytes = static_cast<const char*>(array.data());
  return std::all_of(bytes, bytes + array.size() * caravan::bytes(array.dtype()), [](char c) { return c == 0; });
}

// Two models whose layouts are equal can read each other's weights.
uint64_t layout(const std::vector<Weight>& weights) {
  std::string text;
  for (const Weight& w : weights)
    text += fmt::format("{} {} {};", w.name, name(w.value.dtype()), fmt::join(w.value.shape().sizes(), ","));
  return hash_bytes(text);
}

std::string packed(const Weight& weight) {
  return {static_cast<const char*>(weight.value.data()), size_t(weight.value.size() * bytes(weight.value.dtype()))};
}

}  // namespace

std::string capitals(std::string text) {
  for (char& c : text) c = char(toupper(uint8_t(c)));
  return text;
}

std::string struct_text(const std::vector<Weight>& arrays, const std::string& prefix, const char* type) {
  std::string out = "typedef struct {\n";
  for (const Weight& w : arrays)
    out += fmt::format("  {} {}[{}];  {}\n", codegen::c_type(w.value.dtype()), w.field, w.value.size(),
                       codegen::comment(w.name + ": " + to_string(w.value.shape())));
  return out + fmt::format("}} {}_{};\n", prefix, type);
}

std::string initializer_text(const std::vector<Weight>& arrays, const std::string& prefix, const char* type,
                             const char* constant) {
  std::string out = fmt::format("static const {0}_{1} {0}_{2} = {{\n", prefix, type, constant);
  for (const Weight& w : arrays) {
    if (is_zero(w.value) && w.value.size() > 1) {  // C sets what is not given to 0
      out += fmt::format("  .{} = {{{}}},\n", w.field, element_text(w.value, 0));
      continue;
    }
    std::string lines, line = "   ";
    for (int64_t i = 0; i < w.value.size(); ++i) {
      const std::string text = " " + element_text(w.value, i) + ",";
      if (line.size() + text.size() > kTextColumns) lines += line + "\n", line = "   ";
      line += text;
    }
    if (lines.empty() && line.size() + w.field.size() < kTextColumns)
      out += fmt::format("  .{} = {{{}}},\n", w.field, line.substr(4, line.size() - 5));
    else
      out += fmt::format("  .{} = {{\n{}{}\n  }},\n", w.field, lines, line);
  }
  return out + "};\n";
}

std::string file_bytes(const std::vector<Weight>& weights) {
  std::string contents;
  for (const Weight& w : weights) contents += packed(w);
  std::string out(kMagic);
  auto add = [&](auto number) { out.append(reinterpret_cast<const char*>(&number), sizeof number); };
  add(kByteOrder), add(kVersion), add(layout(weights)), add(hash_bytes(contents));
  return out + contents;
}

std::string load_declaration(const std::string& prefix) {
  return fmt::format(R"C(
/* Reads the weights that were exported with this file. If it does not give {1}_LOADED, they are not to be used. */
enum {{
  {1}_LOADED,
  {1}_NO_WEIGHTS,         /* no file of weights, or one of another version */
  {1}_OTHER_BYTE_ORDER,   /* written by a machine with another byte order */
  {1}_OTHER_MODEL,        /* weights of other names, sizes or precisions */
  {1}_CUT_OFF,            /* the file ends too early, or cannot be read */
  {1}_DAMAGED             /* the file is not what was written */
}};
int {0}_load({0}_weights* weights, FILE* file);
)C",
                     prefix, capitals(prefix));
}

std::string load_definition(const std::vector<Weight>& weights, const std::string& prefix) {
  std::string reads;
  for (const Weight& w : weights)
    reads += fmt::format("  if (!{0}_read(weights->{1}, sizeof weights->{1}, file, &hash)) return {2}_CUT_OFF;\n",
                         prefix, w.field, capitals(prefix));
  return fmt::format(R"C(
/* Reads so many bytes and adds them to the hash (FNV-1a). */
static int {0}_read(void* to, size_t bytes, FILE* file, uint64_t* hash) {{
  const unsigned char* byte = (const unsigned char*)to;
  if (fread(to, 1, bytes, file) != bytes) return 0;
  for (size_t i = 0; i < bytes; ++i) *hash = (*hash ^ byte[i]) * 0x100000001b3u;
  return 1;
}}

int {0}_load({0}_weights* weights, FILE* file) {{
  char magic[{2}];
  uint32_t byte_order, version;
  uint64_t layout, contents, hash = 0;
  if (!{0}_read(magic, sizeof magic, file, &hash) || memcmp(magic, "{3}", sizeof magic) != 0) return {1}_NO_WEIGHTS;
  if (!{0}_read(&byte_order, sizeof byte_order, file, &hash)) return {1}_CUT_OFF;
  if (byte_order != 0x{4:08x}u) return {1}_OTHER_BYTE_ORDER;
  if (!{0}_read(&version, sizeof version, file, &hash)) return {1}_CUT_OFF;
  if (version != {5}) return {1}_NO_WEIGHTS;
  if (!{0}_read(&layout, sizeof layout, file, &hash)) return {1}_CUT_OFF;
  if (layout != 0x{6:016x}u) return {1}_OTHER_MODEL;
  if (!{0}_read(&contents, sizeof contents, file, &hash)) return {1}_CUT_OFF;
  hash = 0x{7:016x}u;
{8}  return hash == contents && fgetc(file) == EOF ? {1}_LOADED : {1}_DAMAGED;
}}
)C",
                     prefix, capitals(prefix), kMagic.size(), kMagic, kByteOrder, kVersion, layout(weights), kHashStart,
                     reads);
}

}  // namespace caravan::deploy
