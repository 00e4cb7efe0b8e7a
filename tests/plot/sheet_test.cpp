// Sheets of images, and the letters on them.
#include "caravan/plot/sheet.h"

#include <gtest/gtest.h>

#include "caravan/plot/font.h"
#include "plot/decoded.h"
#include "svg.h"

namespace caravan::plot {
namespace {

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

}  // namespace
}  // namespace caravan::plot
