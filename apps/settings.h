// Settings, each with where it came from: the command line, then CARAVAN_*, then caravan.toml, then the default.
// Those of the cache come from CARAVAN_* alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "caravan/data/places.h"

namespace caravan::app {

struct Setting {
  std::string value;
  std::string source;  // "command line", "CARAVAN_SEED", "caravan.toml", "default", "not given"
};

class Settings {
 public:
  using CommandLine = std::map<std::string, std::string>;  // those that were given, by name
  // Reads the environment and caravan.toml in the current directory. Throws ConfigError naming the source of a wrong
  // value.
  static Settings resolve(const CommandLine& command_line);

  std::string device() const { return all_.at("device").value; }
  std::string cache() const { return all_.at("cache").value; }  // folder of compiled kernels; empty: there is none
  data::Places data() const;                                    // where data sets are looked for
  int64_t threads() const { return whole("threads"); }
  bool quick_start() const { return whole("quick_start") != 0; }
  int64_t log() const { return whole("log"); }
  uint64_t seed() const { return uint64_t(whole("seed")); }

  const std::map<std::string, Setting>& all() const { return all_; }
  std::string to_string() const;  // one line each

 private:
  int64_t whole(const std::string& name) const;
  std::map<std::string, Setting> all_;
};

}  // namespace caravan::app
