// Which class a model took for which.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "caravan/array/array.h"

namespace caravan::plot {

struct Confusion {
  std::string title;
  std::vector<std::string> classes;
  std::vector<int64_t> counts;  // row by row: a row for each true class, a column for each class the model said

  int64_t count(size_t truth, size_t said) const { return counts[truth * classes.size() + said]; }
  int64_t total() const;
  int64_t right() const;
  double recall(size_t c) const;     // of those that are c, the part the model called so; NaN where there is none
  double precision(size_t c) const;  // of those the model called c, the part that is; NaN where there is none
  double accuracy() const { return double(right()) / double(total()); }
};
// From ids of classes, one of each for an example.
Confusion confusion(std::string title, std::vector<std::string> classes, const Array& truth, const Array& said);

// How a count is to look, where the reader's terminal has colours.
using CountStyle = std::function<std::string(const std::string& count, bool right)>;
// Where the table is wider than `width`, the commonest mistakes instead.
std::string text(const Confusion& confusion, int width = 80, const CountStyle& style = nullptr);
// Blue where right, red where wrong, darker with the logarithm of the count.
std::string svg(const Confusion& confusion);

}  // namespace caravan::plot
