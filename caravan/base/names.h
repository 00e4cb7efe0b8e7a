// Misspelt names: which known name was meant?
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caravan {

// How many letters must be inserted, removed, replaced, or swapped with their neighbour to turn one into the other.
size_t edit_distance(std::string_view a, std::string_view b);

// Is one perhaps a misspelling of the other? Yes iff they differ by at most two letters and at most a third of their
// letters, or only in upper and lower case. Names that differ only in digits (w1, w2) are different names, not
// misspellings.
bool looks_like(std::string_view a, std::string_view b);

// The known name that is nearest to one that is not known, if it looks like it; otherwise empty.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace caravan
