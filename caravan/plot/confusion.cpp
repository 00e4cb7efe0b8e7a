#include "caravan/plot/confusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "caravan/base/error.h"
#include "caravan/plot/page.h"
#include "caravan/plot/words.h"

namespace caravan::plot {

namespace {

void check(const Confusion& c) {
  const size_t n = c.classes.size();
  if (c.counts.size() != n * n)
    throw ShapeError(
        fmt::format("Confusion \"{}\": {} classes have {} counts, not {}.", c.title, n, n * n, c.counts.size()));
  for (int64_t count : c.counts)
    if (count < 0) throw ShapeError(fmt::format("Confusion \"{}\": a count is {}, which is below 0.", c.title, count));
}

// "100.0%" is said of all alone.
std::string one_decimal(double part) {
  return std::isnan(part) ? "-" : fmt::format("{:.1f}%", std::min(100 * part, part < 1 ? 99.9 : 100));
}

}  // namespace

int64_t Confusion::total() const {
  int64_t out = 0;
  for (int64_t count : counts) out += count;
  return out;
}

double Confusion::recall(size_t c) const {
  int64_t all = 0;
  for (size_t said = 0; said < classes.size(); ++said) all += count(c, said);
  return double(count(c, c)) / double(all);
}

double Confusion::precision(size_t c) const {
  int64_t all = 0;
  for (size_t truth = 0; truth < classes.size(); ++truth) all += count(truth, c);
  return double(count(c, c)) / double(all);
}

int64_t Confusion::right() const {
  int64_t out = 0;
  for (size_t c = 0; c < classes.size(); ++c) out += count(c, c);
  return out;
}

Confusion confusion(std::string title, std::vector<std::string> classes, const Array& truth, const Array& said) {
  const size_t n = classes.size();
  Confusion out{std::move(title), std::move(classes), std::vector<int64_t>(n * n)};
  if (truth.size() != said.size())
    throw ShapeError(fmt::format("Confusion \"{}\": there are {} true classes and {} answers.", out.title, truth.size(),
                                 said.size()));
  const auto id = [&](const Array& ids, int64_t i) {
    const double value = ids.at(i);
    if (!(value >= 0 && value < double(n)) || value != std::floor(value))
      throw ShapeError(fmt::format("Confusion \"{}\": example {} has class {}, and there are {} classes, from 0.",
                                   out.title, i, value, n));
    return size_t(value);
  };
  for (int64_t i = 0; i < truth.size(); ++i) ++out.counts[id(truth, i) * n + id(said, i)];
  return out;
}

namespace {

// "97.8"; "100" is said of all alone.
std::string in_hundred(double part) {
  return std::isnan(part) ? "-" : part < 1 ? fmt::format("{:.1f}", std::min(100 * part, 99.9)) : "100";
}

std::string commonest_mistakes(const Confusion& confusion, size_t most) {
  struct Mistake {
    size_t truth, said;
  };
  std::vector<Mistake> all;
  for (size_t truth = 0; truth < confusion.classes.size(); ++truth)
    for (size_t said = 0; said < confusion.classes.size(); ++said)
      if (truth != said && confusion.count(truth, said) > 0) all.push_back({truth, said});
  std::stable_sort(all.begin(), all.end(), [&](const Mistake& a, const Mistake& b) {
    return confusion.count(a.truth, a.said) > confusion.count(b.truth, b.said);
  });
  const int64_t wide = longest(confusion.classes);
  std::string out = confusion.title + ": the commonest mistakes\n\n";
  for (size_t i = 0; i < std::min(most, all.size()); ++i)
    out += fmt::format("  {} taken for {}  {:>6}\n", padded(confusion.classes[all[i].truth], wide),
                       padded(confusion.classes[all[i].said], wide), confusion.count(all[i].truth, all[i].said));
  return out;
}

}  // namespace

std::string text(const Confusion& confusion, int width, const CountStyle& style) {
  check(confusion);
  const size_t n = confusion.classes.size();
  constexpr const char *kPrecision = "precision", *kRecall = "recall";
  const int64_t names = longest(confusion.classes), first = std::max(columns(kPrecision), names);
  int64_t wide = std::max(columns("99.9"), names);
  for (int64_t count : confusion.counts) wide = std::max(wide, columns(std::to_string(count)));
  const auto cell = [&](const std::string& content) { return "  " + padded(content, wide); };
  const auto last = [&](const std::string& content) { return "  " + padded(content, columns(kRecall)) + '\n'; };
  const std::string right = fmt::format("\n{} of {} are right", confusion.right(), confusion.total());
  if (first + int64_t(n) * (2 + wide) + 2 + columns(kRecall) > width)
    return commonest_mistakes(confusion, 12) + right + '\n';

  std::string out =
      confusion.title + ": a row for what it is, a column for what the model said\n\n" + padded("", first);
  for (const std::string& name : confusion.classes) out += cell(name);
  out += last(kRecall);
  for (size_t truth = 0; truth < n; ++truth) {
    out += padded(confusion.classes[truth], first);
    for (size_t said = 0; said < n; ++said) {
      const int64_t count = confusion.count(truth, said);
      const std::string shown = cell(count == 0 ? "." : std::to_string(count));
      out += style && count != 0 ? style(shown, truth == said) : shown;
    }
    out += last(in_hundred(confusion.recall(truth)));
  }
  out += padded(kPrecision, first);
  for (size_t c = 0; c < n; ++c) out += cell(in_hundred(confusion.precision(c)));
  return out + last(in_hundred(confusion.accuracy())) + right + "; recall and precision in %\n";
}

std::string svg(const Confusion& confusion) {
  check(confusion);
  const size_t n = confusion.classes.size();
  const double names = 7 * double(longest(confusion.classes));  // about so many pixels
  int64_t most = 0;
  for (int64_t count : confusion.counts) most = std::max(most, count);
  const double cell = std::max<double>(44, names + 8);
  const double side = cell * double(n);
  Page page{.width = side, .height = side, .left = std::max(90.0, 50 + names), .top = 80, .right = 74, .bottom = 44};
  const auto centre = [&](size_t k) { return (double(k) + 0.5) * cell; };
  const double right = page.left + side + 37, below = page.top + side + 22, heading = page.top - 8;

  page.label(page.left + side / 2, page.top - 26, "middle", "the model said");
  page.label(right, heading, "middle", "recall");
  page.label(page.left - 8, below, "end", "precision");
  page.body +=
      fmt::format("<text transform=\"translate({:.2f} {:.2f}) rotate(-90)\" text-anchor=\"middle\">it is</text>\n",
                  page.left - 22 - names, page.top + side / 2);
  for (size_t c = 0; c < n; ++c) {
    page.label(page.left - 8, page.top + centre(c) + 4, "end", confusion.classes[c]);
    page.label(page.left + centre(c), heading, "middle", confusion.classes[c]);
    page.label(right, page.top + centre(c) + 4, "middle", one_decimal(confusion.recall(c)));
    page.label(page.left + centre(c), below, "middle", one_decimal(confusion.precision(c)));
  }
  page.label(right, below, "middle", one_decimal(confusion.accuracy()));
  for (size_t truth = 0; truth < n; ++truth)
    for (size_t said = 0; said < n; ++said) {
      const int64_t count = confusion.count(truth, said);
      if (count == 0) continue;
      const double shade = std::log1p(double(count)) / std::log1p(double(most));
      page.box(page.left + double(said) * cell, page.top + double(truth) * cell, cell, cell,
               tint(truth == said ? kBlue : kRed, shade));
      const std::string number = std::to_string(count);
      page.label(page.left + centre(said), page.top + centre(truth) + 4, "middle", number,
                 shade > 0.75 ? "#ffffff" : kInk, std::min(12.0, 1.5 * cell / double(number.size())));
    }
  return page.finish(confusion.title);
}

}  // namespace caravan::plot
