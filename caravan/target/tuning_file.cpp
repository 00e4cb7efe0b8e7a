#include "caravan/target/tuning_file.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>

#include "caravan/base/error.h"
#include "caravan/base/folders.h"
#include "caravan/base/list_text.h"
#include "caravan/base/names.h"
#include "caravan/base/regular_file.h"
#include "caravan/base/trimmed.h"

namespace caravan {

namespace {

using Row = TuningNumber;
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
    {"row_vectors", &Tuning::row_vectors, 1, 64},
    {"few_blocks", &Tuning::few_blocks, 1, 4'096},
    {"many_blocks", &Tuning::many_blocks, 1, 4'096},
    {"least_part_tiles", &Tuning::least_part_tiles, 1, 4'096},
    {"least_repacked", &Tuning::least_repacked, 1, 65'536},
    {"blocks_a_thread", &Tuning::blocks_a_thread, 0, 4'096},
    {"least_halved_columns", &Tuning::least_halved_columns, 1, 65'536},
    {"parallel_work", &Tuning::parallel_work, 1, int64_t(1) << 40},
    {"chunk_work", &Tuning::chunk_work, 1, int64_t(1) << 40},
    {"nest_work", &Tuning::nest_work, 1, int64_t(1) << 40},
    {"most_chunks", &Tuning::most_chunks, 1, 65'536},
};

}  // namespace

bool TuningNumber::allows(int64_t value) const {
  return value >= least && value <= most && (!power_of_two || (value & (value - 1)) == 0);
}

std::span<const TuningNumber> tuning_numbers() { return kRows; }

std::string user_tuning_path() {
  const std::string folder = user_configuration_folder();
  return folder.empty() ? "" : folder + "/tuning";
}

std::string tuning_path() {
  if (const char* path = std::getenv("CARAVAN_TUNING")) return path;
  const std::string path = user_tuning_path();
  std::error_code error;
  return !path.empty() && std::filesystem::exists(path, error) ? path : "";
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
    const bool fits = error == std::errc() && end == digits.data() + digits.size() && row->allows(value);
    if (!fits)
      fail("`" + name + "` is " + (row->power_of_two ? "a power of two" : "a whole number") + " from " +
           std::to_string(row->least) + " to " + std::to_string(row->most) + ", not `" + std::string(digits) + "`.");
    out.*row->number = value;
  }
  return out;
}

Tuning read_tuning(const std::string& path, const Tuning& base) {
  RegularFile file(path);
  std::string text;
  if (!file.ok() || !file.read_rest(text))
    throw ConfigError("the tuning file `" + path + "` cannot be read: " + file.problem() + ".");
  return parse_tuning(text, path, base);
}

std::string to_string(const Tuning& tuning, const Tuning& base) {
  std::string out;
  for (const Row& row : kRows)
    if (tuning.*row.number != base.*row.number)
      out += std::string(row.name) + " = " + std::to_string(tuning.*row.number) + "\n";
  return out;
}

}  // namespace caravan
