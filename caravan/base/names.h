// Slips in names: which known name was meant?
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caravan {

// Letters that must be inserted, removed, changed, or exchanged with their neighbour, to make one of the other.
size_t edit_distance(std::string_view a, std::string_view b);

// Is one perhaps a slip for the other? Yes iff they differ by at most a third of their letters and at most two, or in
// upper and lower case alone; names that differ in digits alone (w1, w2) are brothers, not slips.
bool looks_like(std::string_view a, std::string_view b);

// The known name that is nearest to one that is not known, if it looks like it; otherwise empty.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace caravan
