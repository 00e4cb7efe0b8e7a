// What the tests of pictures share: PNG files are decoded again by the specification alone.
#pragma once

#include <fmt/format.h>
#include <zlib.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "caravan/array/array.h"
#include "caravan/base/error.h"
#include "caravan/plot/png.h"

namespace caravan::plot {

using std::string;
inline const double kNan = std::numeric_limits<double>::quiet_NaN(),
                    kInfinity = std::numeric_limits<double>::infinity();

template <class F>
inline string refusal(F f) {
  try {
    f();
  } catch (const ShapeError& e) {
    return e.what();
  }
  return "";
}

inline uint32_t word(const string& bytes, size_t at) {
  uint32_t out = 0;
  for (size_t i = 0; i < 4; ++i) out = out << 8 | uint8_t(bytes.at(at + i));
  return out;
}

// Polynomial division bit by bit, as the PNG specification defines it.
inline uint32_t checksum(const string& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (char c : bytes) {
    crc ^= uint8_t(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320 : crc >> 1;
  }
  return ~crc;
}

// The image of a file of 8 bits without filters; nothing where the file is not as the specification says.
inline std::optional<Image> decoded(const string& file) {
  if (file.substr(0, 8) != "\x89PNG\r\n\x1a\n") return {};
  std::vector<std::pair<string, string>> chunks;
  for (size_t at = 8; at < file.size();) {
    const size_t size = word(file, at);
    if (at + 12 + size > file.size() || checksum(file.substr(at + 4, size + 4)) != word(file, at + 8 + size)) return {};
    chunks.emplace_back(file.substr(at + 4, 4), file.substr(at + 8, size));
    at += 12 + size;
  }
  if (chunks.size() != 3 || chunks[0].first != "IHDR" || chunks[1].first != "IDAT" || chunks[2].first != "IEND")
    return {};
  const string &head = chunks[0].second, &packed = chunks[1].second;
  if (head.size() != 13 || !chunks[2].second.empty() || head[8] != 8 || (head[9] != 0 && head[9] != 2)) return {};
  if (head.substr(10) != string(3, '\0')) return {};
  Image out{word(head, 0), word(head, 4), head[9] == 0 ? 1 : 3, {}};
  const size_t stride = size_t(out.width) * size_t(out.channels) + 1;
  std::vector<uint8_t> rows(stride * size_t(out.height) + 1);  // one more, to see that there is no more
  uLongf size = uLongf(rows.size());
  if (uncompress(rows.data(), &size, reinterpret_cast<const Bytef*>(packed.data()), uLong(packed.size())) != Z_OK)
    return {};
  if (size + 1 != rows.size()) return {};
  for (size_t i = 0; i < size; ++i)
    if (i % stride != 0)
      out.pixels.push_back(rows[i]);
    else if (rows[i] != 0)
      return {};
  return out;
}

inline string from_base64(const string& text) {
  const string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  string out;
  uint32_t bits = 0;
  int have = 0;
  for (char c : text.substr(0, text.find('='))) {
    bits = bits << 6 | uint32_t(digits.find(c));
    if ((have += 6) >= 8) out += char(bits >> (have -= 8) & 255);
  }
  return out;
}

// Row by row, # where the image is as dark as ink.
inline string inked(const Image& image) {
  string out;
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    out += image.pixels[i] == 0x33 ? '#' : '.';
    if ((i + 1) % size_t(image.width) == 0) out += '\n';
  }
  return out;
}

inline Image blank(int64_t width, int64_t height) {
  return {width, height, 1, std::vector<uint8_t>(size_t(width * height), 255)};
}

// `count` images of 2 x 3 pixels, whose pixels are 1, 2, 3, ..
inline Array small_images(int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count * 6; ++i) values.push_back(double(i + 1));
  return Array(parse_shape(fmt::format("{}|2,3,1", count)), values, DType::u8);
}

}  // namespace caravan::plot
