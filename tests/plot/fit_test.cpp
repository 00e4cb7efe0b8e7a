// A line through points, and a surface over a plane.
#include "caravan/plot/fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "caravan/plot/surface.h"
#include "plot/decoded.h"
#include "svg.h"

namespace caravan::plot {
namespace {

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

}  // namespace
}  // namespace caravan::plot
