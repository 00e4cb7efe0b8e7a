#include "caravan/runtime/device_name.h"

#include <charconv>

#include "caravan/base/error.h"

namespace caravan {

DeviceName parse_device_name(const std::string& name) {
  const size_t colon = name.find(':');
  DeviceName out{name.substr(0, colon), std::nullopt};
  if (colon == std::string::npos) return out;
  const char *from = name.data() + colon + 1, *end = name.data() + name.size();
  int ordinal = 0;
  const auto [stop, error] = std::from_chars(from, end, ordinal);
  if (error != std::errc() || stop != end || ordinal < 0)
    throw ConfigError("`" + name + "` does not name a device: after the colon stands its number, as in `" + out.kind +
                      ":0`.");
  out.ordinal = ordinal;
  return out;
}

}  // namespace caravan
