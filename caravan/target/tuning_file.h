// A Tuning in a file, for a machine on which other numbers than the built-in ones were measured to be faster:
//
//     # NAME = NUMBER, one a line
//     vector_bytes = 64
//     parallel_work = 50000
//
// A file may set only numbers that change no result. The order of sums is the same on every machine.
#pragma once

#include <string>

#include "caravan/target/target.h"

namespace caravan {

std::string tuning_path();  // $CARAVAN_TUNING; empty if it is not set: then the built-in numbers are used

// The numbers that the text sets, and the others from `base`. A name that is unknown or set twice, or a number out of
// its range, is a ConfigError that names `where` and the line.
Tuning parse_tuning(const std::string& text, const std::string& where, const Tuning& base = {});
Tuning read_tuning(const std::string& path);  // ConfigError if the file cannot be read or parsed
std::string to_string(const Tuning& tuning);  // the text of such a file

}  // namespace caravan
