#include "caravan/data/text.h"

#include "caravan/data/atomic_file.h"
#include "caravan/data/gzip.h"

namespace caravan::data {

std::vector<std::string> lines(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.emplace_back(line);
  }
  return out;
}

std::vector<std::string> read_lines(const std::string& path, const ReadLimits& limits, Source where) {
  const WrittenAt at(where);
  return naming_memory(path, [&] { return lines(read_unpacked(path, limits)); });
}

}  // namespace caravan::data
