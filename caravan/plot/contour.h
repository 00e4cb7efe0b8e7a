// Lines on which a function of the plane has one value.
#pragma once

#include <string>

#include "caravan/plot/page.h"

namespace caravan::plot {

// As the commands of an SVG path, by marching squares between the centres of four neighbouring cells, whose values are
// given row by row. A square with four crossings is cut at two opposite corners.
std::string level_line(const Page& page, const Frame& frame, const Array& values, double level);

}  // namespace caravan::plot
