// A Tuning in a file, for a machine on which other numbers than the built-in ones were measured to be faster:
//
//     # NAME = NUMBER, one a line
//     vector_bytes = 64
//     parallel_work = 200000
//
// A file may set only numbers that change no result. The order of sums is the same on every machine. `caravan tune`
// measures which numbers are faster, and writes such a file.
#pragma once

#include <span>
#include <string>

#include "caravan/target/target.h"

namespace caravan {

// A number that a file may set.
struct TuningNumber {
  const char* name;
  int64_t Tuning::*number;
  int64_t least, most;
  bool power_of_two = false;
  bool allows(int64_t value) const;
};
std::span<const TuningNumber> tuning_numbers();

std::string user_tuning_path();  // `tuning` in the user's configuration folder; empty if there is no such folder
// The file that is used: $CARAVAN_TUNING, or the user's if that variable is not set and the file exists. If the path is
// empty, the built-in numbers are used.
std::string tuning_path();

// The numbers that the text sets, and the others from `base`. A name that is unknown or set twice, or a number out of
// its range, is a ConfigError that names `where` and the line.
Tuning parse_tuning(const std::string& text, const std::string& where, const Tuning& base = {});
// The same for a file. ConfigError if it cannot be read, too.
Tuning read_tuning(const std::string& path, const Tuning& base = {});
// The text of a file with the numbers that are not those of `base`.
std::string to_string(const Tuning& tuning, const Tuning& base = {});

}  // namespace caravan
