// A Tuning in a file, for a machine on which other numbers than those that are built in were measured to be faster:
//
//     # NAME = NUMBER, one a line
//     vector_bytes = 64
//     parallel_work = 50000
//
// Only numbers that change no result can be given: how sums are ordered is the same on every machine.
#pragma once

#include <string>

#include "caravan/target/target.h"

namespace caravan {

std::string tuning_path();  // $CARAVAN_TUNING; empty: there is none, and what is built in holds

// What the text says, the rest as in `base`. ConfigError naming `where` and the line: a name that is not there or
// twice, a number out of its range.
Tuning parse_tuning(const std::string& text, const std::string& where, const Tuning& base = {});
Tuning read_tuning(const std::string& path);  // ConfigError: the file cannot be read, or says what it may not
std::string to_string(const Tuning& tuning);  // the text of such a file

}  // namespace caravan
