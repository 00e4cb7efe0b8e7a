#include "apps/settings.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "caravan/backend/kernel_cache.h"
#include "caravan/backend/mpi/mpi.h"
#include "caravan/base/error.h"
#include "caravan/base/folders.h"
#include "caravan/base/processors.h"
#include "caravan/base/regular_file.h"

namespace caravan::app {

namespace {

std::string environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? value : "";
}

constexpr const char* kNotGiven = "";  // a default of no value at all

struct Row {
  std::string name, variable, otherwise;
  int64_t low = 0, high = 0;  // of a whole number; both 0 for text
  // Whether caravan.toml may set it. That is a file of the current folder, which may be anybody's: a repository that
  // was cloned, an archive that was unpacked. So it has no say in where the code comes from that is run.
  bool in_file = true;
};

std::vector<Row> rows() {
  return {
      {"device", "CARAVAN_DEVICE", "auto"},
      {"threads", "CARAVAN_THREADS", std::to_string(processors().usable_by_one_of(mpi::launch().processes_here)), 1,
       1024},
      {"cache", "CARAVAN_CACHE", user_cache_folder(), 0, 0, false},
      {"cache_limit", "CARAVAN_CACHE_LIMIT", std::to_string(backend::KernelCache::kDefaultLimit), 0, 1'000'000'000,
       false},
      {"quick_start", "CARAVAN_QUICK_START", "1", 0, 1},
      {"log", "CARAVAN_LOG", "0", 0, 9},
      {"data", "CARAVAN_DATA", kNotGiven},
      {"seed", "CARAVAN_SEED", "1", 0, INT64_MAX},
  };
}

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t out = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && stop == end ? std::optional(out) : std::nullopt;
}

void check(const Row& row, const Setting& setting) {
  if (row.high == 0) {
    if (setting.value.empty()) throw ConfigError(fmt::format("{} (from the {}) is empty.", row.name, setting.source));
    return;
  }
  const std::optional<int64_t> number = whole_number(setting.value);
  if (!number || *number < row.low || *number > row.high)
    throw ConfigError(
        fmt::format("{} (from {}) is `{}`; it must be a whole number {}.", row.name, setting.source, setting.value,
                    row.high == INT64_MAX ? "that is not negative" : fmt::format("from {} to {}", row.low, row.high)));
}

// The content of the file; nothing where there is none. What a key like `a.a.a.a` of 50,000 parts makes is as deep as
// it has parts, and the TOML library goes down and up through it by recursion: no setting has a dot in its name, so a
// line with many is refused before it is parsed.
std::optional<std::string> content_of(const std::string& path) {
  constexpr int64_t kMostBytes = 64 * 1024;
  constexpr int kMostDots = 32;  // in a line: of a key, or of a path that is a value
  if (!std::filesystem::exists(std::filesystem::symlink_status(path))) return std::nullopt;
  RegularFile file(path);
  std::string out;
  if (file.ok() && file.status().st_size > kMostBytes)
    throw ConfigError(
        fmt::format("{} has {} bytes, and at most {} are read.", path, file.status().st_size, kMostBytes));
  if (!file.ok() || !file.read_rest(out))
    throw ConfigError(fmt::format("{} cannot be read: {}.", path, file.problem()));
  int line = 1, dots = 0;
  for (const char c : out) {
    if (c == '\n') ++line, dots = 0;
    if (c == '.' && ++dots > kMostDots)
      throw ConfigError(fmt::format("{}, line {}: it has more than {} dots.", path, line, kMostDots));
  }
  return out;
}

// The file's top-level keys as text. An unknown key is most likely a misspelt one, so it is refused.
std::map<std::string, std::string> from_file(const std::vector<Row>& known) {
  std::map<std::string, std::string> out;
  const std::optional<std::string> content = content_of("caravan.toml");
  if (!content) return out;
  toml::table table;
  try {
    table = toml::parse(*content);
  } catch (const toml::parse_error& error) {
    throw ConfigError(fmt::format("caravan.toml, line {}: {}.", error.source().begin.line, error.description()));
  }
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const auto row = std::find_if(known.begin(), known.end(), [&](const Row& r) { return r.name == name; });
    if (row == known.end()) {
      std::vector<std::string> names;
      for (const Row& r : known)
        if (r.in_file) names.push_back(r.name);
      throw ConfigError(fmt::format("caravan.toml, line {}: there is no setting `{}`; there are {}.",
                                    node.source().begin.line, name, fmt::join(names, ", ")));
    }
    if (!row->in_file)
      throw ConfigError(fmt::format(
          "caravan.toml, line {}: `{}` is not taken from a file of the current folder, because whoever wrote the file "
          "could have code of theirs run; remove the line, and set {} if you want it.",
          node.source().begin.line, name, row->variable));
    if (const auto* text = node.as_string())
      out[name] = text->get();
    else if (const auto* number = node.as_integer())
      out[name] = std::to_string(number->get());
    else
      throw ConfigError(
          fmt::format("caravan.toml, line {}: `{}` must be text or a whole number.", node.source().begin.line, name));
  }
  return out;
}

}  // namespace

Settings Settings::resolve(const CommandLine& command_line) {
  Settings out;
  const std::vector<Row> table = rows();
  const auto file = from_file(table);
  for (const Row& row : table) {
    Setting& setting = out.all_[row.name];
    if (auto given = command_line.find(row.name); given != command_line.end())
      setting = {given->second, "command line"};
    else if (std::string value = environment(row.variable); !value.empty())
      setting = {value, row.variable};
    else if (auto written = file.find(row.name); written != file.end())
      setting = {written->second, "caravan.toml"};
    else
      setting = {row.otherwise, row.otherwise == kNotGiven ? "not given" : "default"};
    if (setting.source != "not given") check(row, setting);
  }
  return out;
}

data::Places Settings::data() const {
  const Setting& given = all_.at("data");
  return data::usual_places(given.value, given.source == "command line" ? "--data" : given.source);
}

int64_t Settings::whole(const std::string& name) const { return *whole_number(all_.at(name).value); }

std::string Settings::to_string() const {
  std::string out;
  for (const auto& [name, setting] : all_)
    out += fmt::format("{:<12} {:<28} {}\n", name, setting.value, setting.source);
  return out;
}

}  // namespace caravan::app
