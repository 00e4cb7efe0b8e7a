#include "caravan/base/names.h"

#include <algorithm>
#include <cctype>

namespace caravan {

size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows i - 2, i - 1 and i of the dynamic-programming table.
  std::vector<size_t> before, last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    std::swap(last, now);
  }
  return last[b.size()];
}

namespace {
template <class Change>
std::string changed(std::string_view name, Change change) {
  std::string out;
  for (unsigned char c : name) change(out, c);
  return out;
}
std::string without_digits(std::string_view name) {
  return changed(name, [](std::string& out, unsigned char c) {
    if (!std::isdigit(c)) out += char(c);
  });
}
std::string lower_case(std::string_view name) {
  return changed(name, [](std::string& out, unsigned char c) { out += char(std::tolower(c)); });
}
}  // namespace

bool looks_like(std::string_view a, std::string_view b) {
  if (a == b) return true;
  if (lower_case(a) == lower_case(b)) return true;
  if (without_digits(a) == without_digits(b)) return false;
  return edit_distance(a, b) <= std::min<size_t>(2, std::max(a.size(), b.size()) / 3);
}

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  std::string out;
  for (const std::string& k : known)
    if (looks_like(name, k) && (out.empty() || edit_distance(name, k) < edit_distance(name, out))) out = k;
  return out;
}

}  // namespace caravan
