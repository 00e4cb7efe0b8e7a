// The name of a device: `cuda:1` is the second of its kind.
#pragma once

#include <optional>
#include <string>

namespace caravan {

struct DeviceName {
  std::string kind;
  std::optional<int> ordinal;  // where the name has one
};
// ConfigError if what stands after the colon is no number.
DeviceName parse_device_name(const std::string& name);

}  // namespace caravan
