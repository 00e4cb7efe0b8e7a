// Pictures: what is drawn is where it should be, and the SVG is well formed.
#include "caravan/plot/plot.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "caravan/base/error.h"
#include "caravan/plot/heat_map.h"
#include "caravan/plot/histograms.h"
#include "caravan/plot/name_map.h"
#include "svg.h"

namespace caravan::plot {
namespace {

Array points(const std::vector<double>& xy) {
  Shape shape;
  shape.batch = {{int64_t(xy.size() / 2)}};
  shape.output = {{2}};
  return Array(shape, xy);
}

// Two points of either class in the unit square, with a boundary at x = 0.5.
Scatter halves(int width, int height) {
  Scatter out{"Halves",
              {0, 1, 0, 1, width, height},
              points({0.1, 0.9, 0.3, 0.2, 0.8, 0.7, 0.95, 0.05}),
              Array::vector({1, 1, -1, -1}),
              {}};
  std::vector<double> scores;
  for (int r = 0; r < height; ++r)
    for (int c = 0; c < width; ++c) scores.push_back(0.5 - out.frame.x(c));
  out.scores = Array::vector(scores);
  return out;
}

TEST(Plot, TheCheckerOfWellFormednessSeesMistakes) {
  EXPECT_EQ(mistake("<svg a=\"1\"><g/>a &lt; b</svg>\n"), "");
  for (const char* bad : {"<svg>", "<svg></g>", "<svg><g></svg></g>", "<svg a=1/>", "<svg>&</svg>", "<svg/><svg/>",
                          "<svg/>text", "", "<svg a=\"<\"/>"})
    EXPECT_NE(mistake(bad), "") << bad;
}

TEST(Plot, ATextCurveFallsFromTheTopLeftToTheBottomRight) {
  EXPECT_EQ(text(Curve{"Falling", "epoch", {4, 3, 2, 1, 0}}, 9, 5),
            "Falling\n\n"
            "         4 ┤•\n"
            "           │  •\n"
            "           │    •\n"
            "           │      •\n"
            "         0 ┤        •\n"
            "           └─────────\n"
            "            1 epoch 5\n");
}

TEST(Plot, ALogarithmicAxisMakesDecadesEqualAndKeepsZerosAtTheBottom) {
  EXPECT_EQ(text(Curve{"Decades", "step", {100, 10, 1, 0}, Axis::logarithmic, 50}, 16, 5),
            "Decades\n\n"
            "       100 ┤•\n"
            "           │\n"
            "           │     •\n"
            "           │\n"
            "         1 ┤          •    ○\n"
            "           └────────────────\n"
            "            50      step 200\n");
}

TEST(Plot, ManyValuesAreAveragedAndOddOnesDoNotStopTheDrawing) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& values : std::vector<std::vector<double>>{{},
                                                                            {1},
                                                                            {0},
                                                                            {7, 7, 7},
                                                                            {nan},
                                                                            {1, nan, 3},
                                                                            {infinity, -infinity},
                                                                            {-1, 0, 1},
                                                                            {1e300, -1e300},
                                                                            {1e308, -1e308, 1},
                                                                            {1e-300},
                                                                            {1e300},
                                                                            {2.5, 3},
                                                                            {0, 0},
                                                                            std::vector<double>(100'000, 0.25)})
    for (Axis axis : {Axis::linear, Axis::logarithmic}) {
      const Curve curve{"Any", "step", values, axis};
      const string drawn = text(curve), picture = svg(curve);
      EXPECT_EQ(drawn.find("nan"), string::npos) << drawn;
      EXPECT_EQ(mistake(picture), "") << picture;
      EXPECT_EQ(picture.find("nan"), string::npos) << picture;
      EXPECT_EQ(picture.find("inf"), string::npos) << picture;
      EXPECT_LT(picture.size(), 50'000u);
    }
  EXPECT_CONTAINS(text(Curve{"Any", "step", {}}), "nothing to draw");
  EXPECT_EQ(count(text(Curve{"Any", "step", {1, nan, 3}}), "•"), 2u);
}

TEST(Plot, WhatIsBesideACurveHasAnAxisAtTheRight) {
  Curve curve{"Loss", "step", {4, 3, 2, 1, 0}, Axis::linear, 10};
  curve.x_last = 45;  // the last stretch is half as long
  curve.beside = {"accuracy, %", {{20, 90}, {45, 98}}};
  EXPECT_EQ(text(curve, 9, 5),
            "Loss\n\n"
            "         4 ┤•       + ├ 98\n"
            "           │  •       │\n"
            "           │    •     │\n"
            "           │      •   │\n"
            "         0 ┤  +     • ├ 90\n"
            "           └──────────┘\n"
            "            10step 45\n");
  const string picture = svg(curve);
  EXPECT_EQ(mistake(picture), "") << picture;
  for (const char* phrase : {">accuracy, %<", ">98<", "step 45: 0<", "step 45: 98<", ">0</text>"})
    EXPECT_CONTAINS(picture, phrase);
  EXPECT_EQ(picture.find("step 50"), string::npos);
}

TEST(Plot, ASparklineFallsFromFullToEmpty) {
  EXPECT_EQ(sparkline({1000, 100, 10, 1}, 8), "█▆▃▁");
  EXPECT_EQ(sparkline({7, 3.5, 0}, 8), "█▅▁");
  EXPECT_EQ(sparkline({1, std::nan(""), 10}, 8), "▁ █");
  EXPECT_EQ(sparkline({}, 8), "");
}

TEST(Plot, AnAxisFromZeroHasZeroOnIt) {
  Curve curve{"Loss", "epoch", {3, 2}};
  EXPECT_EQ(svg(curve).find(">0<"), string::npos);
  curve.from_zero = true;
  EXPECT_CONTAINS(svg(curve), ">0<");
}

TEST(Plot, AnSvgCurveHasEveryPointInItsPlace) {
  const std::vector<double> values = {4, 1, 3, 0};
  const string picture = svg(Curve{"Loss", "epoch", values});
  EXPECT_EQ(mistake(picture), "") << picture;
  EXPECT_CONTAINS(picture, "<title>Loss</title>");
  const std::vector<double> x = numbers(picture, "circle", "cx"), y = numbers(picture, "circle", "cy");
  ASSERT_EQ(x.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_CONTAINS(picture, fmt::format("<title>epoch {}: {:.6g}</title>", i + 1, values[i]));
    EXPECT_CONTAINS(picture, fmt::format("{}{:.2f} {:.2f}", i ? "L" : "M", x[i], y[i]));  // the line goes through it
    EXPECT_NEAR(x[i], x[0] + (x[3] - x[0]) * double(i) / 3, 0.011);
    EXPECT_NEAR(y[i], y[3] + (y[0] - y[3]) * values[i] / 4, 0.011);
  }
  EXPECT_LT(y[0], y[3]);  // upwards
}

TEST(Plot, AnSvgCurveHasRoundTicks) {
  const string linear = svg(Curve{"Rate", "epoch", {0.1, 0.2}}),
               decades = svg(Curve{"Loss", "epoch", {0.001, 1000}, Axis::logarithmic});
  for (const char* tick : {">0.1<", ">0.12<", ">0.2<"}) EXPECT_CONTAINS(linear, tick);
  for (const char* tick : {">0.01<", ">1<", ">100<"}) EXPECT_CONTAINS(decades, tick);
}

TEST(Plot, ALineIsInterruptedWhereAValueIsNotFinite) {
  const string picture = svg(Curve{"Gap", "step", {1, 2, std::nan(""), 3, 4}});
  EXPECT_EQ(mistake(picture), "") << picture;
  const size_t from = picture.find(" d=\"") + 4;
  const string d = picture.substr(from, picture.find('"', from) - from);
  EXPECT_EQ(count(d, "M"), 2u) << d;
  EXPECT_EQ(count(d, "L"), 2u) << d;
}

TEST(Plot, TextIsEscaped) {
  const string picture = svg(Curve{"a < b & \"c\"", "<epoch>", {1, 2}});
  EXPECT_EQ(mistake(picture), "") << picture;
  EXPECT_CONTAINS(picture, "a &lt; b &amp; &quot;c&quot;");
}

TEST(Plot, WhatXmlCannotHoldIsReplaced) {
  const std::pair<string, string> rows[] = {
      {"é € 😀", "é € 😀"},
      {string("a\0b\x01", 4), "a\uFFFDb\uFFFD"},
      {"cut \xC3", "cut \uFFFD"},
      {"\xFF\xC0\xAF", "\uFFFD\uFFFD\uFFFD"},            // no first byte; an overlong slash
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},            // half a surrogate pair
      {"\xEF\xBF\xBF", "\uFFFD\uFFFD\uFFFD"},            // U+FFFF
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},  // beyond U+10FFFF
  };
  for (const auto& [title, shown] : rows) EXPECT_CONTAINS(svg(Curve{title, "", {1}}), "<title>" + shown + "</title>");
}

TEST(Plot, ATextScatterShowsClassesOnShadedCells) {
  EXPECT_EQ(text(halves(10, 5)),
            "Halves: o and x are the two classes, dots are where the model says x\n\n"
            "   o   .....\n"
            "       ...x.\n"
            "       .....\n"
            "     o .....\n"
            "       ....x\n");
}

TEST(Plot, AnSvgScatterHasEveryPointAndTheBoundaryBetweenThem) {
  const Scatter scatter = halves(8, 6);
  const string picture = svg(scatter);
  EXPECT_EQ(mistake(picture), "") << picture;
  const std::vector<double> x = numbers(picture, "circle", "cx"), y = numbers(picture, "circle", "cy");
  ASSERT_EQ(x.size(), 4u);
  const double left = numbers(picture, "rect", "x").back(),
               top = numbers(picture, "rect", "y").back();  // the frame is last
  const double width = numbers(picture, "rect", "width").back(), height = numbers(picture, "rect", "height").back();
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(x[size_t(i)], left + scatter.points.at(2 * i) * width, 0.011);
    EXPECT_NEAR(y[size_t(i)], top + (1 - scatter.points.at(2 * i + 1)) * height, 0.011);
  }
  const size_t from = picture.find(" d=\"") + 4;
  const string d = picture.substr(from, picture.find('"', from) - from);
  EXPECT_EQ(count(d, "M"), 5u) << d;  // one piece between each two of six rows
  EXPECT_EQ(count(d, fmt::format("{:.2f} ", left + width / 2)), 10u) << d;
}

TEST(Plot, ALongRunIsDrawnFromMeansOverStepsInThousands) {
  Curve curve{"Loss", "step", {}};
  for (int i = 0; i < 300'000; ++i)
    curve.values.push_back(3 - i * 1e-5 + (i % 2 ? 5 : -5));  // the mean falls from 3 to 0
  const string picture = svg(curve);
  EXPECT_EQ(mistake(picture), "");
  EXPECT_LT(picture.size(), 20'000u);
  for (const char* tick : {">50,000<", ">100,000<", ">300,000<", ">0<", ">1<", ">2<"}) EXPECT_CONTAINS(picture, tick);
  for (const char* single : {">-2<", ">4<", ">-5<", ">5<"}) EXPECT_EQ(picture.find(single), string::npos) << single;

  const string drawn = text(curve, 30, 4);
  EXPECT_CONTAINS(drawn, "\n            1                 step 300,000\n");
  EXPECT_EQ(count(drawn, "•"), 30u) << drawn;
}

TEST(Plot, ACurveHasWholeNumbersBelowAtTheirPlaces) {
  const string picture = svg(Curve{"Loss", "epoch", {5, 4, 3, 2}});
  std::vector<double> at;
  for (int k = 1; k <= 4; ++k) {
    std::smatch found;
    const std::regex label(fmt::format(R"lit(<text x="([0-9.]+)" y="330.00" text-anchor="middle">{}<)lit", k));
    ASSERT_TRUE(std::regex_search(picture, found, label)) << k << '\n' << picture;
    at.push_back(std::stod(found[1]));
  }
  EXPECT_EQ(at, numbers(picture, "circle", "cx"));
  EXPECT_CONTAINS(svg(Curve{"Loss", "epoch", {5}, Axis::linear, 7}), ">7</text>");
}

TEST(Plot, ALogarithmicAxisOfOneDecadeHasTicks) {
  const string picture = svg(Curve{"Loss", "epoch", {0.15, 3}, Axis::logarithmic});
  for (const char* tick : {">0.2<", ">0.5<", ">1<", ">2<"}) EXPECT_CONTAINS(picture, tick);
  for (const char* outside : {">0.1<", ">5<"}) EXPECT_EQ(picture.find(outside), string::npos) << picture;
}

TEST(Plot, PointsThatAreNotNumbersAreLeftOut) {
  Scatter scatter = halves(4, 4);
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  scatter.points = points({nan, 0.5, 0.5, nan, infinity, 0.5, 0.1, 0.1});
  EXPECT_EQ(numbers(svg(scatter), "circle", "cx").size(), 1u);
  EXPECT_EQ(svg(scatter).find("nan"), string::npos) << svg(scatter);
  const string drawn = text(scatter), cells = drawn.substr(drawn.find("\n\n"));
  EXPECT_EQ(count(cells, "o") + count(cells, "x"), 1u) << drawn;
}

TEST(Plot, PointsOutsideTheFrameAreLeftOut) {
  Scatter scatter = halves(4, 4);
  scatter.points = points({-1, 0.5, 0.5, 2, 0.5, 0.5, 1.0, 1.0});
  EXPECT_EQ(mistake(svg(scatter)), "");
  EXPECT_EQ(numbers(svg(scatter), "circle", "cx").size(), 2u);
  const string drawn = text(scatter), cells = drawn.substr(drawn.find("\n\n"));
  EXPECT_EQ(count(cells, "o") + count(cells, "x"), 1u) << drawn;  // the corner belongs to the next cell
}

TEST(Plot, ScoresThatAreNotNumbersHaveNoBoundary) {
  Scatter scatter = halves(3, 3);
  scatter.scores = Array::vector({-1, std::nan(""), 1, std::nan(""), -1, 1, 1, 1, std::nan("")});
  EXPECT_EQ(mistake(svg(scatter)), "");
  EXPECT_EQ(svg(scatter).find("nan"), string::npos) << svg(scatter);
}

TEST(Plot, CentresAreThoseOfTheCellsRowByRow) {
  const Frame frame{0, 4, 0, 2, 2, 2};
  EXPECT_EQ(frame.centres().values(), (std::vector<double>{1, 1.5, 3, 1.5, 1, 0.5, 3, 0.5}));
}

TEST(Plot, AHeatMapIsDarkestWhereItIsLargest) {
  const HeatMap map{.title = "Pairs", .rows = {"a", "<"}, .columns = {"b"}, .values = {2, 1}, .cells = {"two", "1"}};
  const string drawn = svg(map);
  EXPECT_EQ(mistake(drawn), "");
  EXPECT_NE(drawn.find("fill=\"#2563a8\""), string::npos) << "the largest has the full colour";
  EXPECT_NE(drawn.find(">two<"), string::npos);
  HeatMap odd = map;
  odd.values = {std::nan(""), -1};
  EXPECT_EQ(mistake(svg(odd)), "");
  EXPECT_EQ(svg(odd).find("nan"), string::npos);
  odd.values = {1};
  EXPECT_THROW(svg(odd), ShapeError);
}

TEST(Plot, NamesLieWhereTheirPointsAre) {
  const string drawn = svg(NameMap{"Map", "x", "y", {{"a", 0, 0}, {"&", 1, 3}, {"lost", std::nan(""), 1}}});
  EXPECT_EQ(mistake(drawn), "");
  const std::vector<double> xs = numbers(drawn, "circle", "cx"), ys = numbers(drawn, "circle", "cy");
  ASSERT_EQ(xs.size(), 2u);
  EXPECT_LT(xs[0], xs[1]);
  EXPECT_GT(ys[0], ys[1]) << "up is up";
  EXPECT_EQ(mistake(svg(NameMap{"Nothing", "", "", {}})), "");
}

TEST(Plot, AHistogramHasTheLargestPartAtItsTop) {
  const string drawn = svg(Histograms{"Values", "v", {{"some", {0, 0, 0, 1}}, {"odd", {std::nan(""), 0.5}}}, 2});
  EXPECT_EQ(mistake(drawn), "");
  EXPECT_NE(drawn.find(">100.0%<"), string::npos) << "the second list lies in one bin: " << drawn;
  EXPECT_EQ(mistake(svg(Histograms{"Nothing", "v", {{"none", {}}}})), "");
  EXPECT_THROW(svg(Histograms{"No bins", "v", {}, 0}), ShapeError);
}

}  // namespace
}  // namespace caravan::plot
