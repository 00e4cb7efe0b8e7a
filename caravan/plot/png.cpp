#include "caravan/plot/png.h"

#include <fmt/format.h>
#include <zlib.h>

#include "caravan/base/error.h"

namespace caravan::plot {

namespace {

std::string big_endian(uint64_t value) {
  return {char(value >> 24 & 255), char(value >> 16 & 255), char(value >> 8 & 255), char(value & 255)};
}

const Bytef* bytes(const std::string& text) { return reinterpret_cast<const Bytef*>(text.data()); }

std::string chunk(const std::string& kind, const std::string& content) {
  const std::string checked = kind + content;
  return big_endian(content.size()) + checked + big_endian(crc32_z(0, bytes(checked), checked.size()));
}

std::string compressed(const std::string& text) {
  uLongf size = compressBound(uLong(text.size()));
  std::string out(size, '\0');
  const int status = compress2(reinterpret_cast<Bytef*>(out.data()), &size, bytes(text), uLong(text.size()), 9);
  if (status != Z_OK)
    throw BackendError(fmt::format("zlib cannot compress an image of {} bytes (status {}).", text.size(), status));
  out.resize(size);
  return out;
}

void check(const Image& image) {
  constexpr int64_t kMost = (int64_t(1) << 31) - 1;  // what the format can say
  const auto& [width, height, channels, pixels] = image;
  if (width < 1 || height < 1 || width > kMost || height > kMost)
    throw ShapeError(
        fmt::format("A PNG file has at least one pixel, not {} x {}, and at most {} on a side.", width, height, kMost));
  if (channels != 1 && channels != 3)
    throw ShapeError(fmt::format("An image has 1 channel (grey) or 3 (red, green, blue), not {}.", channels));
  const uint64_t bytes = uint64_t(width) * uint64_t(height) * uint64_t(channels);
  if (bytes != pixels.size())
    throw ShapeError(fmt::format("An image of {} x {} with {} channel{} has {} bytes, not {}.", width, height, channels,
                                 channels == 1 ? "" : "s", bytes, pixels.size()));
}

}  // namespace

std::string png(const Image& image) {
  check(image);
  constexpr char kBits = 8, kGrey = 0, kColour = 2, kUnfiltered = 0;
  const std::string kind = {kBits, image.channels == 1 ? kGrey : kColour, 0, 0, 0};  // deflated, rows in order
  const auto stride = image.width * image.channels;
  std::string rows;
  for (auto row = image.pixels.begin(); row != image.pixels.end(); row += stride)
    (rows += kUnfiltered).append(row, row + stride);
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", big_endian(uint64_t(image.width)) + big_endian(uint64_t(image.height)) + kind) +
         chunk("IDAT", compressed(rows)) + chunk("IEND", "");
}

std::string data_uri(const Image& image) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string file = png(image);
  const auto byte = [&](size_t i) { return i < file.size() ? uint32_t(uint8_t(file[i])) : 0; };
  std::string out = "data:image/png;base64,";
  for (size_t i = 0; i < file.size(); i += 3) {
    const uint32_t three = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (int shift : {18, 12, 6, 0}) out += kDigits[three >> shift & 63];
  }
  for (size_t missing = (3 - file.size() % 3) % 3, i = 1; i <= missing; ++i) out[out.size() - i] = '=';
  return out;
}

}  // namespace caravan::plot
