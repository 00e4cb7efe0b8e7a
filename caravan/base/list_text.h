// Lists in messages and printed programs: "a, b, c".
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace caravan {

inline void add_to_list(std::string& list, std::string_view item, std::string_view between = ", ") {
  if (!list.empty()) list += between;
  list += item;
}

// joined(rows, ", ", [](const Row& row) { return row.name; }): `text` gives the text of an item.
template <class Items, class Text = std::identity>
std::string joined(const Items& items, std::string_view between = ", ", Text text = {}) {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += between;
    out += std::invoke(text, item);
    first = false;
  }
  return out;
}

}  // namespace caravan
