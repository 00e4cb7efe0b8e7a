#include "caravan/plot/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "caravan/base/printable.h"
#include "caravan/plot/page.h"
#include "caravan/plot/words.h"

namespace caravan::plot {

namespace {

struct Row {
  std::string name, note;
  double microseconds, least;
};

std::vector<Row> rows_of(const plan::Profile& profile, size_t most) {
  std::vector<Row> out;
  Row rest{"", "", 0, 0};
  for (size_t k = 0; k < profile.kernels.size(); ++k) {
    const plan::KernelProfile& kernel = profile.kernels[k];
    if (k < most) {
      const std::vector<std::string> origins = kernel.origins;
      out.push_back(
          {kernel.name, origins.empty() ? "" : origins.front(), kernel.microseconds, kernel.least_microseconds});
    } else {
      rest.microseconds += kernel.microseconds, rest.least += kernel.least_microseconds;
    }
  }
  if (profile.kernels.size() > most) {
    rest.name = fmt::format("others: {}", profile.kernels.size() - most);
    out.push_back(rest);
  }
  return out;
}

}  // namespace

std::string svg(const plan::Profile& profile, size_t most) {
  constexpr double kLine = 26, kBar = 15;
  const std::vector<Row> rows = rows_of(profile, most);
  std::vector<std::string> names;
  double longest_time = 0;
  for (const Row& row : rows) names.push_back(row.name), longest_time = std::max(longest_time, row.microseconds);
  Page page{.width = 300,
            .height = kLine * double(rows.size()),
            .left = 24 + 7 * double(longest(names)),
            .top = 64,
            .right = 420,
            .bottom = 40,
            .framed = false};
  for (size_t k = 0; k < rows.size(); ++k) {
    const Row& row = rows[k];
    const double part = longest_time > 0 ? row.microseconds / longest_time : 0;
    const double least = longest_time > 0 ? std::min(row.least, row.microseconds) / longest_time : 0;
    const double top = page.top + kLine * double(k), base = top + kLine / 2 + 4;
    page.label(page.left - 8, base, "end", row.name);
    page.box(page.left, top + (kLine - kBar) / 2, part * page.width, kBar, "#a9c3e0");
    page.box(page.left, top + (kLine - kBar) / 2, least * page.width, kBar, kBlue);
    const double share = profile.kernel_microseconds > 0 ? row.microseconds / profile.kernel_microseconds : 0;
    const std::string note = row.note.empty() ? "" : ": " + printable(row.note, 48);
    page.label(page.left + part * page.width + 6, base, "start",
               fmt::format("{} us, {:.1f}%{}", plan::microseconds_text(row.microseconds), 100 * share, note));
  }
  page.line(page.left, page.top, page.left, page.top + page.height, kInk);
  page.label(page.left, page.top - 12, "start", profile.target, kInk, 11);
  if (profile.peaks.flops > 0)
    page.label(page.left, page.top + page.height + 22, "start",
               "dark: what the machine's arithmetic or memory would need at best", kInk, 11);
  return page.finish(fmt::format("{}: {} us a step, {} kernels", profile.program,
                                 plan::microseconds_text(profile.step_microseconds), profile.kernels.size()));
}

}  // namespace caravan::plot
