#include "caravan/plot/histograms.h"

#include <fmt/format.h>

#include <algorithm>

#include "caravan/base/error.h"
#include "caravan/plot/page.h"
#include "caravan/plot/scale.h"

namespace caravan::plot {

std::string svg(const Histograms& h) {
  constexpr std::string_view kColours[] = {kBlue, kRed, "#3a8a4d", "#8a5ca8", kInk};
  if (h.bins < 1 || h.lists.size() > std::size(kColours))
    throw ShapeError(fmt::format("Histograms \"{}\": {} bins and {} lists; there must be a bin, and at most {} lists.",
                                 h.title, h.bins, h.lists.size(), std::size(kColours)));
  double low = 0, high = 0, most = 0;
  bool any = false;
  for (const Histograms::List& list : h.lists)
    for (const double v : list.values)
      if (drawable(v)) low = any ? std::min(low, v) : v, high = any ? std::max(high, v) : v, any = true;
  if (!(high > low)) low -= 0.5, high += 0.5;
  std::vector<std::vector<double>> parts;
  for (const Histograms::List& list : h.lists) {
    std::vector<double>& part = parts.emplace_back(size_t(h.bins), 0.0);
    double all = 0;
    for (const double v : list.values)
      if (drawable(v)) part[std::min(size_t((v - low) / (high - low) * h.bins), size_t(h.bins) - 1)] += 1, all += 1;
    for (double& one : part) most = std::max(most, one /= std::max(all, 1.0));
  }
  Page page{.width = 560, .height = 300, .bottom = 50 + 18 * double(h.lists.size())};
  for (size_t k = 0; k < parts.size(); ++k) {
    std::string path;
    for (int b = 0; b < h.bins; ++b)
      path += fmt::format("{}{:.2f} {:.2f} H{:.2f}", b == 0 ? 'M' : 'L', page.x(double(b) / h.bins),
                          page.y(most > 0 ? parts[k][size_t(b)] / most : 0), page.x(double(b + 1) / h.bins));
    page.body += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", path, kColours[k]);
    const double legend = page.y(0) + 50 + 18 * double(k);
    page.box(page.left, legend - 9, 14, 9, kColours[k]);
    page.label(page.left + 20, legend, "start", h.lists[k].name);
  }
  page.label(page.x(0), page.y(0) + 18, "start", fmt::format("{:.3g}", low));
  page.label(page.x(1), page.y(0) + 18, "end", fmt::format("{:.3g}", high));
  page.label(page.x(0.5), page.y(0) + 18, "middle", h.x_label);
  page.label(page.x(0) - 8, page.y(1) + 4, "end", fmt::format("{:.1f}%", 100 * most));
  page.label(page.x(0) - 8, page.y(0) + 4, "end", "0%");
  return page.finish(h.title);
}

}  // namespace caravan::plot
