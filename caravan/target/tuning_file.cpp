#include "caravan/target/tuning_file.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string_view>

#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/base/names.h"
#include "caravan/base/regular_file.h"

namespace caravan {

namespace {

struct Row {
  const char* name;
  int64_t Tuning::*number;
  int64_t least, most;
  bool power_of_two = false;
};
constexpr Row kRows[] = {
    {"least_packed_reads", &Tuning::least_packed_reads, 1, 1'000'000},
    {"vector_bytes", &Tuning::vector_bytes, 16, 64, true},
    {"block_lanes", &Tuning::block_lanes, 1, 64, true},
    {"block_rows", &Tuning::block_rows, 1, 16},
    {"least_streamed", &Tuning::least_streamed, 0, 1'000'000},
    {"few_sums", &Tuning::few_sums, 1, 64},
    {"many_sums", &Tuning::many_sums, 1, 64},
    {"near_bytes", &Tuning::near_bytes, 0, int64_t(1) << 30},
    {"same_places", &Tuning::same_places, 64, int64_t(1) << 30},
    {"far_bytes", &Tuning::far_bytes, 4, int64_t(1) << 30},
    {"panel_rows", &Tuning::panel_rows, 8, 4'096},
    {"least_panel_rows", &Tuning::least_panel_rows, 1, 4'096},
    {"block_columns", &Tuning::block_columns, 64, 65'536},
    {"panel_elements", &Tuning::panel_elements, 1'024, int64_t(1) << 24},
    {"least_packed_tiles", &Tuning::least_packed_tiles, 1, 4'096},
    {"few_blocks", &Tuning::few_blocks, 1, 4'096},
    {"parallel_work", &Tuning::parallel_work, 1, int64_t(1) << 40},
    {"chunk_work", &Tuning::chunk_work, 1, int64_t(1) << 40},
    {"most_chunks", &Tuning::most_chunks, 1, 65'536},
};

std::string_view trimmed(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t\r");
  return from == text.npos ? "" : text.substr(from, text.find_last_not_of(" \t\r") - from + 1);
}
bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

}  // namespace

std::string tuning_path() {
  const char* path = std::getenv("CARAVAN_TUNING");
  return path ? path : "";
}

Tuning parse_tuning(const std::string& text, const std::string& where, const Tuning& base) {
  Tuning out = base;
  std::set<std::string> seen;
  std::istringstream lines(text);
  int number = 0;
  for (std::string whole; std::getline(lines, whole);) {
    ++number;
    auto fail = [&](const std::string& what) { throw ConfigError(where + ":" + std::to_string(number) + ": " + what); };
    const std::string_view line = trimmed(std::string_view(whole).substr(0, whole.find('#')));
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    if (equals == line.npos) fail("`" + std::string(line) + "` is not NAME = NUMBER.");
    const std::string name(trimmed(line.substr(0, equals)));
    const std::string_view digits = trimmed(line.substr(equals + 1));
    const Row* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return name == r.name; });
    if (row == std::end(kRows))
      fail("there is no number `" + name +
           "` to tune; there are: " + joined(kRows, ", ", [](const Row& r) { return std::string(r.name); }) + ".");
    if (!seen.insert(name).second) fail("`" + name + "` was given before.");
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool fits = error == std::errc() && end == digits.data() + digits.size() && value >= row->least &&
                      value <= row->most && (!row->power_of_two || is_power_of_two(value));
    if (!fits)
      fail("`" + name + "` is " + (row->power_of_two ? "a power of two" : "a whole number") + " from " +
           std::to_string(row->least) + " to " + std::to_string(row->most) + ", not `" + std::string(digits) + "`.");
    out.*row->number = value;
  }
  return out;
}

Tuning read_tuning(const std::string& path) {
  RegularFile file(path);
  std::string text;
  if (!file.ok() || !file.read_rest(text))
    throw ConfigError("the tuning file `" + path + "` (CARAVAN_TUNING) cannot be read: " + file.problem() + ".");
  return parse_tuning(text, path);
}

std::string to_string(const Tuning& tuning) {
  std::string out;
  for (const Row& row : kRows) out += std::string(row.name) + " = " + std::to_string(tuning.*row.number) + "\n";
  return out;
}

}  // namespace caravan
