// PNG files.
#include <gtest/gtest.h>

#include "contains.h"
#include "plot/decoded.h"

namespace caravan::plot {
namespace {

Image noise(int64_t width, int64_t height, int channels) {
  Image out{width, height, channels, {}};
  uint32_t state = 12345;
  for (int64_t i = 0; i < width * height * channels; ++i)
    out.pixels.push_back(uint8_t((state = state * 1664525 + 1013904223) >> 24));
  return out;
}

TEST(Png, AFileDecodesToItsPixels) {
  for (int channels : {1, 3})
    for (const auto& [width, height] : {std::pair{1, 1}, {1, 7}, {7, 1}, {28, 28}, {300, 200}}) {
      const Image image = noise(width, height, channels);
      const std::optional<Image> back = decoded(png(image));
      ASSERT_TRUE(back) << width << " x " << height;
      EXPECT_EQ(back->width, width);
      EXPECT_EQ(back->height, height);
      EXPECT_EQ(back->channels, channels);
      EXPECT_EQ(back->pixels, image.pixels);
      EXPECT_EQ(png(image), png(image));
    }
}

TEST(Png, TheDecoderOfThisTestSeesMistakes) {
  const string good = png(noise(5, 4, 1));
  ASSERT_TRUE(decoded(good));
  for (size_t at = 0; at < good.size(); ++at) {
    string bad = good;
    bad[at] = char(bad[at] ^ 1);
    EXPECT_FALSE(decoded(bad)) << at;
  }
  EXPECT_EQ(word(good, good.size() - 4), 0xAE426082u);  // the checksum of IEND, as the specification prints it
}

TEST(Png, ImagesThatCannotBeAreRefused) {
  EXPECT_CONTAINS(refusal([] { png(Image{}); }), "at least one pixel, not 0 x 0");
  EXPECT_CONTAINS(refusal([] { png(Image{2, 1, 2, {1, 2, 3, 4}}); }), "not 2");
  EXPECT_CONTAINS(refusal([] { png(Image{2, 2, 1, {1, 2, 3}}); }), "2 x 2 with 1 channel has 4 bytes, not 3");
  EXPECT_CONTAINS(refusal([] { png(Image{int64_t(1) << 31, 1, 1, {}}); }), "at most 2147483647");
}

TEST(Png, ADataUriIsTheFileInBase64) {
  const string start = "data:image/png;base64,";
  for (int64_t width : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {  // files of all lengths modulo 3
    const string uri = data_uri(noise(width, 1, 1));
    ASSERT_EQ(uri.substr(0, start.size()), start);
    EXPECT_EQ((uri.size() - start.size()) % 4, 0u);
    EXPECT_EQ(from_base64(uri.substr(start.size())), png(noise(width, 1, 1)));
  }
}

}  // namespace
}  // namespace caravan::plot
