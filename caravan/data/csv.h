// Tables of numbers as text: CSV and its relatives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "caravan/array/array.h"
#include "caravan/data/byte_source.h"

namespace caravan::data {

// How a table is written.
struct CsvOptions {
  char separator = ',';      // between the fields of a row
  bool header = false;       // the first row has names
  DType dtype = DType::f32;  // the precision of the values
  ReadLimits limits{};       // of a file that is packed
};
// What was read.
struct Table {
  std::vector<std::string> names{};  // of the columns; empty without a header
  Array values{};                    // examples|columns
  std::string file{};                // what it was read from, for messages

  // Columns by their names: columns({"size", "age"}) is n|2 for n examples; columns({"rent"}) is n|1.
  Array columns(const std::vector<std::string>& wanted, Source where = Source::here()) const;
  Array columns(int64_t first, int64_t count, Source where = Source::here()) const;  // the columns first, first + 1, ..
};

// Fields may be in double quotes ("" is one quote within them) and have spaces around; lines end with LF or CRLF.
// Lines that are blank, wherever they are, are skipped.
// ConfigError with line and column for a field that is no number or does not fit the precision, for a whole number that
// the precision can only round (123456789 as f32; 0.1 and 1.5e10 are rounded as ever), and for rows of different
// lengths. A file may be packed.
Table read_csv(const std::string& path, const CsvOptions& options = {}, Source where = Source::here());
// The same from a text in memory; `file` names it in messages.
Table parse_csv(std::string_view content, const std::string& file, const CsvOptions& options = {},
                Source where = Source::here());

}  // namespace caravan::data
