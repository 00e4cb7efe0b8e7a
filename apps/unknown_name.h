// A name that is not known, told with the one that was perhaps meant and those there are.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "caravan/base/list_text.h"
#include "caravan/base/names.h"
#include "caravan/base/printable.h"

namespace caravan::app {

// "there is no recipe `mons`; did you mean `moons`? There are: linear, moons."
inline std::string unknown_name(const std::string& kind, const std::string& name,
                                const std::vector<std::string>& known) {
  const std::string meant = nearest(name, known);
  return fmt::format("there is no {} `{}`; {}: {}.", kind, printable(name),
                     meant.empty() ? "there are" : fmt::format("did you mean `{}`? There are", meant), joined(known));
}

}  // namespace caravan::app
