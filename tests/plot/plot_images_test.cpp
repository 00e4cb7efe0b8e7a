// Pictures of images and of answers: PNG files are decoded again, and everything is where it should be.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <limits>
#include <optional>

#include "caravan/base/error.h"
#include "caravan/plot/bars.h"
#include "caravan/plot/confidence.h"
#include "caravan/plot/confusion.h"
#include "caravan/plot/fit.h"
#include "caravan/plot/font.h"
#include "caravan/plot/png.h"
#include "caravan/plot/sheet.h"
#include "caravan/plot/surface.h"
#include "svg.h"

namespace caravan::plot {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

template <class F>
string refusal(F f) {
  try {
    f();
  } catch (const ShapeError& e) {
    return e.what();
  }
  return "";
}

uint32_t word(const string& bytes, size_t at) {
  uint32_t out = 0;
  for (size_t i = 0; i < 4; ++i) out = out << 8 | uint8_t(bytes.at(at + i));
  return out;
}

// Polynomial division bit by bit, as the PNG specification defines it.
uint32_t checksum(const string& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (char c : bytes) {
    crc ^= uint8_t(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320 : crc >> 1;
  }
  return ~crc;
}

// The image of a file of 8 bits without filters; nothing where the file is not as the specification says.
std::optional<Image> decoded(const string& file) {
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

string from_base64(const string& text) {
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

Image noise(int64_t width, int64_t height, int channels) {
  Image out{width, height, channels, {}};
  uint32_t state = 12345;
  for (int64_t i = 0; i < width * height * channels; ++i)
    out.pixels.push_back(uint8_t((state = state * 1664525 + 1013904223) >> 24));
  return out;
}

// Row by row, # where the image is as dark as ink.
string inked(const Image& image) {
  string out;
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    out += image.pixels[i] == 0x33 ? '#' : '.';
    if ((i + 1) % size_t(image.width) == 0) out += '\n';
  }
  return out;
}

Image blank(int64_t width, int64_t height) {
  return {width, height, 1, std::vector<uint8_t>(size_t(width * height), 255)};
}

// `count` images of 2 x 3 pixels, whose pixels are 1, 2, 3, ..
Array small_images(int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count * 6; ++i) values.push_back(double(i + 1));
  return Array(parse_shape(fmt::format("{}|2,3,1", count)), values, DType::u8);
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

TEST(Font, LettersAreWrittenSideBySideAndCutOffAtTheEdge) {
  Image image = blank(18, 9);
  write(image, 0, 0, "4 g", 0x33);
  EXPECT_EQ(inked(image),
            "...#..............\n"
            "..##..............\n"
            ".#.#.........####.\n"
            "#..#........#...#.\n"
            "#####.......#...#.\n"
            "...#........#...#.\n"
            "...#.........####.\n"
            "................#.\n"
            ".............###..\n");
  Image large = blank(10, 18);
  write(large, 0, 0, "4", 0x33, 2);
  for (size_t y = 0; y < 18; ++y)
    for (size_t x = 0; x < 10; ++x) EXPECT_EQ(large.pixels[y * 10 + x], image.pixels[y / 2 * 18 + x / 2]);

  Image edge = blank(4, 3);
  write(edge, -3, -3, "44", 0x33);  // the first 4 from its middle on
  EXPECT_EQ(inked(edge), "#..#\n##.#\n#...\n");
}

TEST(Font, EveryLetterHasAPictureOfItsOwn) {
  const string letters = "0123456789.,:%-><+=/()'?_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz ";
  std::vector<string> seen;
  for (const string& one : [&] {
         std::vector<string> all = {"\x01"};  // the box of what has none
         for (char c : letters) all.push_back(string(1, c));
         return all;
       }()) {
    Image image = blank(6, 9);
    write(image, 0, 0, one, 0x33);
    const string drawn = inked(image);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), drawn), 0) << one << '\n' << drawn;
    seen.push_back(drawn);
  }
  Image accent = blank(12, 9), box = blank(12, 9);
  write(accent, 0, 0, "éa", 0x33);
  write(box, 0, 0,
        "\x01"
        "a",
        0x33);
  EXPECT_EQ(inked(accent), inked(box));  // one box, however many bytes
}

TEST(Sheet, ThePixelsOfAPngAreThoseOfTheImages) {
  Sheet sheet{"", small_images(5)};
  sheet.columns = 2;
  sheet.scale = 4;
  const std::optional<Image> page = decoded(png(sheet));
  ASSERT_TRUE(page);
  EXPECT_EQ(page->width, 16 + 12 + 6 + 12 + 16);
  EXPECT_EQ(page->height, 16 + 3 * (8 + 6) + 10);
  std::vector<uint8_t> expected(size_t(page->width * page->height), 255);
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t y = 0; y < 8; ++y)
      for (int64_t x = 0; x < 12; ++x)
        expected[size_t((16 + i / 2 * 14 + y) * page->width + 16 + i % 2 * 18 + x)] =
            uint8_t(i * 6 + y / 4 * 3 + x / 4 + 1);
  EXPECT_EQ(page->pixels, expected);
}

TEST(Sheet, ImagesMayBeFlatBytesOrNumbersUpToOne) {
  const Array bytes(parse_shape("2|2,2,1"), {0, 255, 51, 102, 204, 0, 255, 1}, DType::u8);
  const string expected = png(Sheet{"", bytes}), drawn = svg(Sheet{"", bytes}), shown = text(Sheet{"", bytes});
  std::vector<double> parts;
  for (double value : bytes.values()) parts.push_back(value / 255);
  const Array beyond(parse_shape("2|4"), {kNan, kInfinity, 0.2, 0.4, 0.8, -3, 7, 1 / 255.0});
  for (const Array& same : {bytes.reshaped(parse_shape("2|2,2")), bytes.reshaped(parse_shape("2|4")),
                            Array(parse_shape("2|2,2,1"), parts), beyond}) {
    EXPECT_EQ(png(Sheet{"", same}), expected) << same;
    EXPECT_EQ(svg(Sheet{"", same}), drawn) << same;
    EXPECT_EQ(text(Sheet{"", same}), shown) << same;
  }
}

TEST(Sheet, WhatIsNoRowOfImagesIsRefused) {
  for (const char* shape : {"", "4", "2,2", "2|5", "2|2,2,3", "2,2|4", "2|4->4", "2|"})
    for (const string& message : {refusal([&] {
                                    png(Sheet{"Digits", Array(parse_shape(shape))});
                                  }),
                                  refusal([&] {
                                    svg(Sheet{"Digits", Array(parse_shape(shape))});
                                  }),
                                  refusal([&] {
                                    text(Sheet{"Digits", Array(parse_shape(shape))});
                                  })}) {
      EXPECT_CONTAINS(message, "Sheet \"Digits\": images are n|h,w,1 or n|h,w or n|side*side, not ");
      EXPECT_CONTAINS(message, to_string(parse_shape(shape)) + ": reshape them");
    }
  Sheet sheet{"Digits", small_images(2)};
  sheet.columns = 0;
  EXPECT_CONTAINS(refusal([&] { png(sheet); }), "columns (0)");
  sheet = {"Digits", small_images(2)};
  sheet.scale = -1;
  EXPECT_CONTAINS(refusal([&] { svg(sheet); }), "scale (-1)");
}

TEST(Sheet, NamesStandWhereTheyBelong) {
  Sheet sheet{"T", Array(parse_shape("3|30,30"), std::vector<double>(2700, 0.5))};
  sheet.columns = 2;
  sheet.scale = 1;
  sheet.captions = {"4", "", "H"};
  sheet.row_titles = {"", "L"};
  sheet.column_titles = {"", "I"};
  const std::optional<Image> page = decoded(png(sheet));
  ASSERT_TRUE(page);
  // The grey tile of image i is at left + 36 column, top + 60 row; letters are twice 5 x 7.
  const auto first = std::find(page->pixels.begin(), page->pixels.end(), 128) - page->pixels.begin();
  const int64_t left = first % page->width, top = first / page->width;
  EXPECT_EQ(left, 16 + 12 + 6);
  EXPECT_EQ(top, 16 + 28 + 24);
  const auto letter = [&](int64_t x, int64_t y) {  // what is drawn with its corner there, at half the size
    string out;
    for (int64_t row = 0; row < 7; ++row, out += '\n')
      for (int64_t column = 0; column < 5; ++column)
        out += page->pixels[size_t((y + 2 * row) * page->width + x + 2 * column)] == 0x33 ? '#' : '.';
    return out;
  };
  const auto picture = [](const string& name) {
    Image image = blank(5, 7);
    write(image, 0, 0, name, 0x33);
    return inked(image);
  };
  EXPECT_EQ(letter(left, 16), picture("T"));
  EXPECT_EQ(letter(left + 36 + 10, top - 24), picture("I"));
  EXPECT_EQ(letter(left + 10, top + 30 + 4), picture("4"));
  EXPECT_EQ(letter(left + 10, top + 60 + 30 + 4), picture("H"));
  EXPECT_EQ(letter(left - 6 - 12, top + 60 + 8), picture("L"));
  const size_t ink = size_t(std::count(page->pixels.begin(), page->pixels.end(), 0x33));
  size_t expected = 0;
  for (const char* name : {"T", "I", "4", "H", "L"}) expected += 4 * count(picture(name), "#");
  EXPECT_EQ(ink, expected);  // and nothing else is written
}

TEST(Sheet, LongCaptionsMakeRoomForThemselves) {
  Sheet sheet{"", small_images(3)};
  sheet.captions = {"said 9, is 4", "said 4, is 9", "x"};
  const std::optional<Image> page = decoded(png(sheet));
  ASSERT_TRUE(page);
  EXPECT_GE(page->width, 3 * 12 * kLetterWidth);
  const std::vector<double> x = numbers(svg(sheet), "image", "x");
  ASSERT_EQ(x.size(), 3u);
  EXPECT_GE(x[1] - x[0], 12 * 6);
}

TEST(Sheet, AnSvgHoldsItsImagesAndItsNames) {
  Sheet sheet{"a < b", small_images(3)};
  sheet.columns = 2;
  sheet.captions = {"4 & 5", "4 not 9"};
  sheet.row_titles = {"<row>", "2", "too many"};
  sheet.column_titles = {"0", "\"0.5\"", "too many"};
  const string picture = svg(sheet);
  EXPECT_EQ(mistake(picture), "") << picture;
  for (const char* name : {">a &lt; b<", ">4 &amp; 5<", ">4 not 9<", ">&lt;row&gt;<", ">&quot;0.5&quot;<"})
    EXPECT_CONTAINS(picture, name);
  EXPECT_EQ(picture.find("too many"), string::npos);
  EXPECT_EQ(picture, svg(sheet));

  size_t at = 0;
  for (int64_t i = 0; i < 3; ++i) {
    at = picture.find("base64,", at) + 7;
    const std::optional<Image> image = decoded(from_base64(picture.substr(at, picture.find('"', at) - at)));
    ASSERT_TRUE(image) << i;
    EXPECT_EQ(image->width, 3);
    EXPECT_EQ(image->height, 2);
    for (size_t p = 0; p < 6; ++p) EXPECT_EQ(image->pixels[p], size_t(i) * 6 + p + 1);
  }
  const std::vector<double> x = numbers(picture, "image", "x"), y = numbers(picture, "image", "y");
  EXPECT_EQ(x[0], x[2]);
  EXPECT_EQ(y[0], y[1]);
  EXPECT_LT(x[0], x[1]);
  EXPECT_LT(y[0], y[2]);
}

TEST(Sheet, ATextHasHalfBlocksAndShades) {
  Sheet sheet{"Two", Array(parse_shape("2|4,5,1"), {0,   60,  120, 180, 255,  //
                                                    0,   60,  120, 180, 255,  //
                                                    255, 0,   0,   255, 0,    //
                                                    0,   255, 0,   255, 0,    //
                                                    255, 255, 255, 255, 255,  //
                                                    0,   0,   0,   0,   0,    //
                                                    0,   0,   0,   0,   0,    //
                                                    0,   0,   0,   0,   255},
                           DType::u8)};
  sheet.captions = {"4", "wide caption"};
  sheet.column_titles = {"a", "b"};
  sheet.row_titles = {"first"};
  EXPECT_EQ(text(sheet),
            "Two\n\nfirst\n"
            "  a      b\n"
            " ░▒▓█  ▀▀▀▀▀\n"
            "▀▄ █       ▄\n"
            "  4    wide\n");
}

TEST(Sheet, ATextThatIsTooWideIsMadeSmallerAndBroken) {
  Sheet sheet{"", Array(parse_shape("3|8,8"), std::vector<double>(192, 1.0))};
  sheet.captions = {"1", "2", "3"};
  const string four = "████", eight = four + four;
  EXPECT_EQ(
      text(sheet, 28), "\n" + [&] {
        string rows;
        for (int r = 0; r < 4; ++r) rows += eight + "  " + eight + "  " + eight + "\n";
        return rows;
      }() + "   1         2         3\n");
  EXPECT_EQ(text(sheet, 27),
            "\n" + four + "  " + four + "  " + four + "\n" + four + "  " + four + "  " + four + "\n 1     2     3\n");
  EXPECT_EQ(text(sheet, 10),
            "\n" + four + "  " + four + "\n" + four + "  " + four + "\n 1     2\n" + four + "\n" + four + "\n 3\n");
  EXPECT_EQ(count(text(sheet, 1), "\n"), 10u);  // one below the other, not none
}

TEST(Fit, HasPointsAndLines) {
  const Fit fit{"Points", Array::vector({0, 1, 2}), Array::vector({0, 1, 2}), {{"learned", 1, 0}, {"true", -1, 2}}};
  EXPECT_EQ(text(fit, 5, 5),
            "Points: • learned, . true\n\n"
            "  .   o\n"
            "   . •\n"
            "    o\n"
            "   • .\n"
            "  o   .\n");
  const string picture = svg(fit);
  EXPECT_EQ(mistake(picture), "") << picture;
  EXPECT_EQ(numbers(picture, "circle", "cx").size(), 3u);
  for (const char* name : {">learned<", ">true<"}) EXPECT_CONTAINS(picture, name);
  const double nan = std::nan("");
  EXPECT_EQ(mistake(svg(Fit{"None", Array::vector({nan}), Array::vector({1}), {{"nan", nan, nan}}})), "");
  EXPECT_CONTAINS(refusal([&] { text(Fit{"Bad", Array::vector({1, 2}), Array::vector({1}), {}}); }), "2 x and 1 y");
}

TEST(Surface, IsDarkerWhereItIsHigherAndHasLines) {
  Surface surface{"Plane", {0, 1, 0, 1, 4, 2}, Array::vector({0, 1, 2, 3, 0, 1, 2, 3})};
  EXPECT_EQ(text(surface), "Plane: 0 to 9 from 0 to 3\n\n  0369\n  0369\n");
  const string plain = svg(surface);
  EXPECT_EQ(mistake(plain), "") << plain;
  EXPECT_EQ(plain.find("dashed"), string::npos);
  surface.truth = surface.values;
  EXPECT_CONTAINS(svg(surface), "dashed: where they should be");
  surface.values = Array::vector(std::vector<double>(8, std::nan("")));
  EXPECT_EQ(mistake(svg(surface)), "");
  EXPECT_EQ(text(surface).find("nan"), string::npos);
  surface.values = Array::vector({1});
  EXPECT_CONTAINS(refusal([&] { svg(surface); }), "4 x 2 cells need 8 values");
}

TEST(Confusion, CountsExamples) {
  const Confusion c = confusion("Pets", {"cat", "dog", "owl"}, Array::vector({0, 0, 0, 1, 1, 0}, DType::i32),
                                Array::vector({0, 0, 1, 1, 0, 0}, DType::i32));
  EXPECT_EQ(c.counts, (std::vector<int64_t>{3, 1, 0, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(c.total(), 6);
  EXPECT_EQ(c.right(), 4);
  EXPECT_DOUBLE_EQ(c.recall(0), 3 / 4.0);
  EXPECT_DOUBLE_EQ(c.recall(1), 1 / 2.0);
  EXPECT_DOUBLE_EQ(c.precision(0), 3 / 4.0);
  EXPECT_DOUBLE_EQ(c.accuracy(), 4 / 6.0);
  EXPECT_TRUE(std::isnan(c.recall(2)));
  EXPECT_TRUE(std::isnan(c.precision(2)));
}

TEST(Confusion, WhatIsNoClassIsRefused) {
  const auto with = [](std::vector<double> truth, std::vector<double> said) {
    return refusal([&] { confusion("Pets", {"cat", "dog"}, Array::vector(truth), Array::vector(said)); });
  };
  EXPECT_CONTAINS(with({0, 1}, {0}), "Confusion \"Pets\": there are 2 true classes and 1 answers");
  EXPECT_CONTAINS(with({0, 2}, {0, 1}), "example 1 has class 2, and there are 2 classes");
  EXPECT_CONTAINS(with({0}, {-1}), "example 0 has class -1");
  EXPECT_CONTAINS(with({0.5}, {1}), "class 0.5");
  EXPECT_CONTAINS(with({kNan}, {1}), "class nan");
  for (const Confusion& bad : {Confusion{"Pets", {"cat", "dog"}, {1, 2, 3}}, Confusion{"Pets", {"cat"}, {-1}}}) {
    EXPECT_CONTAINS(refusal([&] { text(bad); }), "Confusion \"Pets\"");
    EXPECT_CONTAINS(refusal([&] { svg(bad); }), "Confusion \"Pets\"");
  }
}

TEST(Confusion, ATableIsAligned) {
  EXPECT_EQ(text(Confusion{"Pets", {"cat", "dög", "parrot"}, {8, 2, 0, 1, 120345, 0, 0, 0, 0}}),
            "Pets: a row for what it is, a column for what the model said\n\n"
            "              cat     dög  parrot  recall\n"
            "      cat       8       2       .    80.0\n"
            "      dög       1  120345       .    99.9\n"
            "   parrot       .       .       .       -\n"
            "precision    88.9    99.9       -    99.9\n\n"
            "120353 of 120356 are right; recall and precision in %\n");
  EXPECT_CONTAINS(text(Confusion{"One", {"a"}, {3}}), "    3     100\n");
  EXPECT_CONTAINS(text(Confusion{"None", {}, {}}), "0 of 0 are right");
}

TEST(Confusion, ATableThatIsTooWideIsAListOfMistakes) {
  std::vector<string> letters;
  std::vector<int64_t> counts(26 * 26);
  for (int64_t c = 0; c < 26; ++c) letters.emplace_back(1, char('a' + c)), counts[size_t(27 * c)] = 100;
  counts[1] = 3, counts[26] = 5;  // a as b, b as a
  EXPECT_EQ(text(Confusion{"Letters", letters, counts}, 80),
            "Letters: the commonest mistakes\n\n"
            "  b taken for a       5\n"
            "  a taken for b       3\n\n"
            "2600 of 2608 are right\n");
  EXPECT_CONTAINS(text(Confusion{"Letters", letters, counts}, 200), "a row for what it is");
}

TEST(Confusion, AHeatMapIsDarkerWhereMoreIs) {
  const Confusion c{"Pets & co", {"cat", "<dog>"}, {1000, 30, 0, 3}};
  const string picture = svg(c);
  EXPECT_EQ(mistake(picture), "") << picture;
  EXPECT_CONTAINS(picture, "Pets &amp; co");
  EXPECT_CONTAINS(picture, "&lt;dog&gt;");
  EXPECT_CONTAINS(picture, "fill=\"#2563a8\"/>");          // the largest count has the full colour
  EXPECT_CONTAINS(picture, "fill=\"#ffffff\">1000<");      // light on dark
  EXPECT_CONTAINS(picture, "text-anchor=\"middle\">30<");  // dark on light
  EXPECT_EQ(picture.find(">0<"), string::npos);
  const std::vector<double> x = numbers(picture, "rect", "x"), y = numbers(picture, "rect", "y");
  ASSERT_EQ(x.size(), 4u);                                                          // three cells and the frame
  EXPECT_EQ((std::vector<double>{y[0], y[1]}), (std::vector<double>{y[3], y[3]}));  // the first row is the first class
  EXPECT_EQ(x[0], x[3]);
  EXPECT_EQ(x[1], x[2]);
  EXPECT_GT(y[2], y[3]);
  EXPECT_EQ(mistake(svg(Confusion{"None", {}, {}})), "");
  const string empty = svg(Confusion{"Empty", {"a"}, {0}});
  EXPECT_EQ(mistake(empty), "");
  EXPECT_EQ(empty.find("nan"), string::npos) << empty;
}

// Four points on a line, two of either class: sure, unsure, wrong, without an answer.
Confidence line() {
  return {"Line",
          {0, 4, 0, 1, 8, 2},
          Array(parse_shape("4|2"), {0.5, 0.75, 1.5, 0.75, 2.5, 0.75, 3.5, 0.25}),
          Array::vector({0.99, 0.6, 0.9, kNan}),
          Array::vector({1, 1, 0, 0}),
          {"out", "in"}};
}

TEST(Confidence, ATextShowsWhoIsSure) {
  Confidence confidence = line();
  EXPECT_EQ(text(confidence),
            "Line: o says in, x says out, capitals where the model is 90% sure, ! where it is wrong (1 of 4)\n\n"
            "   O o !\n"
            "         ?\n");
  confidence.probabilities = Array::vector({0.01, 0.4, 0.05, 0.5});
  confidence.labels = Array::vector({-1, 0, 0, 1});
  EXPECT_EQ(text(confidence),
            "Line: o says in, x says out, capitals where the model is 90% sure, ! where it is wrong (0 of 4)\n\n"
            "   X x X\n"
            "         o\n");
}

TEST(Confidence, WrongAnswersAreNotHidden) {
  Confidence confidence = line();
  confidence.points = Array(parse_shape("4|2"), {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
  const string drawn = text(confidence);
  EXPECT_CONTAINS(drawn.substr(drawn.find("\n\n")), "!");
}

TEST(Confidence, TheCircleIsDrawn) {
  Confidence confidence = line();
  confidence.frame = {-2, 2, -2, 2, 9, 5};
  confidence.points = Array(parse_shape("4|2"), std::vector<double>(8, 0.0));
  confidence.circle = Circle{0, 0, 1.5};
  const string drawn = text(confidence);
  EXPECT_EQ(drawn.substr(drawn.find("\n\n") + 2),
            "    .....\n"
            "   ..   ..\n"
            "   .  !  .\n"
            "   ..   ..\n"
            "    .....\n");
  const string picture = svg(confidence);
  EXPECT_EQ(mistake(picture), "") << picture;
  EXPECT_EQ(numbers(picture, "ellipse", "cx"), std::vector<double>{240});
  EXPECT_EQ(numbers(picture, "ellipse", "rx"), std::vector<double>{180});
  EXPECT_EQ(numbers(picture, "ellipse", "ry"), std::vector<double>{180});
}

TEST(Confidence, AnSvgIsFaintWhereTheModelIsUnsureAndOutlinesWhatIsWrong) {
  const string picture = svg(line());
  EXPECT_EQ(mistake(picture), "") << picture;
  const size_t legend = 4;
  const std::vector<double> size = numbers(picture, "circle", "r"),
                            opacity = numbers(picture, "circle", "fill-opacity"), x = numbers(picture, "circle", "cx"),
                            y = numbers(picture, "circle", "cy");
  ASSERT_EQ(size.size(), 4 + legend);
  EXPECT_GT(size[0], size[1]);
  EXPECT_GT(opacity[0], opacity[1]);
  EXPECT_EQ(count(picture, "stroke-width=\"1.5\""), 2u);  // the wrong one, and the one that says so
  EXPECT_EQ(count(picture, "fill=\"#2563a8\" fill-opacity"), 4u);
  EXPECT_EQ(x[0], 70 + 60);
  EXPECT_EQ(x[3], 70 + 300);  // the wrong one is last
  EXPECT_EQ(y[0], 40 + 30);
  EXPECT_CONTAINS(picture, ">says in<");
  EXPECT_CONTAINS(picture, ">says out<");
  EXPECT_EQ(picture, svg(line()));
}

TEST(Confidence, OddNumbersDoNotStopTheDrawing) {
  Confidence confidence = line();
  confidence.title = confidence.classes[0] = "<&>";
  confidence.points = Array(parse_shape("4|2"), {kNan, 0.5, 0.5, kInfinity, 9, 9, 0.5, 0.5});
  confidence.probabilities = Array::vector({kNan, kInfinity, -kInfinity, 7}, DType::f64);
  for (double odd : {kNan, kInfinity, -1.0, 0.0}) {
    confidence.circle = Circle{0, 0, odd};
    const string picture = svg(confidence);
    EXPECT_EQ(mistake(picture), "") << picture;
    for (const char* word : {"nan", "inf", "=\"-"}) EXPECT_EQ(picture.find(word), string::npos) << picture;
    EXPECT_EQ(numbers(picture, "circle", "cx").size(), 1u + 4) << picture;
    EXPECT_CONTAINS(text(confidence), "<&>");
  }
  confidence.labels = Array::vector({1, 2});
  EXPECT_CONTAINS(refusal([&] { svg(confidence); }),
                  "4 probabilities need points 4|2 and 4 labels, not 8 and 2 numbers");
  EXPECT_CONTAINS(refusal([&] { text(confidence); }), "4 probabilities");
}

TEST(Bars, ATextHasABarForEachProbability) {
  EXPECT_EQ(text(Bars{"Which", {"0", "one", "2", "3", "4"}, {1, 0.5, 0.0625, 0, kNan}}, 8),
            "Which\n\n"
            "    0 ▕████████  100.00%\n"
            "  one ▕████       50.00%\n"
            "    2 ▕▌           6.25%\n"
            "    3 ▕            0.00%\n"
            "    4 ▕         not a number\n");
  EXPECT_EQ(text(Bars{"", {"a"}, {-2}}, 4), "  a ▕     -200.00%\n");
  EXPECT_EQ(text(Bars{"", {"a"}, {2}}, 4), "  a ▕████  200.00%\n");
}

TEST(Bars, AnSvgHasBarsAsLongAsTheProbabilities) {
  const Bars bars{"Which <one>", {"a", "&", "c", "d"}, {0.25, 0.5, kNan, 7}};
  const string picture = svg(bars);
  EXPECT_EQ(mistake(picture), "") << picture;
  const std::vector<double> wide = numbers(picture, "rect", "width");
  EXPECT_EQ((std::vector<double>(wide.begin() + 1, wide.end())), (std::vector<double>{80, 160, 0, 320}));
  EXPECT_EQ(picture.find("nan"), string::npos);
  EXPECT_EQ(mistake(svg(Bars{"", {}, {}})), "");
  EXPECT_CONTAINS(refusal([] {
                    text(Bars{"Which", {"a"}, {1, 2}});
                  }),
                  "Bars \"Which\": there are 1 names and 2 values");
  EXPECT_CONTAINS(refusal([] { svg(Bars{"Which", {"a"}, {1, 2}}); }), "1 names and 2 values");
}

}  // namespace
}  // namespace caravan::plot
