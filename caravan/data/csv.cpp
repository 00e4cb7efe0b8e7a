#include "caravan/data/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "caravan/base/error.h"
#include "caravan/base/names.h"
#include "caravan/data/atomic_file.h"
#include "caravan/data/gzip.h"
#include "caravan/data/json_text.h"

namespace caravan::data {

namespace {

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  return text;
}

std::optional<double> number(std::string_view text) {
  text = without_blanks(text);
  double out = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && stop == text.data() + text.size() ? std::optional(out) : std::nullopt;
}

// A whole number written without an exponent (123456789 or 123456789.0): an id, a count, a time, whose digits all
// count. 0.1 and 6.02e23 are measured, and rounded like any other. Nothing for a number that is not so, or beyond i64.
std::optional<int64_t> whole_number(std::string_view text) {
  text = without_blanks(text);
  if (const size_t point = text.find('.'); point != text.npos && point > 0) {
    if (text.find_first_not_of('0', point + 1) != text.npos) return std::nullopt;
    text = text.substr(0, point);
  }
  int64_t out = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && stop == text.data() + text.size() ? std::optional(out) : std::nullopt;
}
// Is it a value of the precision? (2^63 is no i64, and would be one too many in the conversion back.)
bool holds_exactly(DType dtype, int64_t value) {
  if (!is_float(dtype)) return saturated(dtype, value) == value;
  const double nearest = dtype == DType::f32 ? double(float(value)) : convert(dtype, double(value));
  return std::fabs(nearest) < 0x1p63 && int64_t(nearest) == value;
}

class CsvParser {
 public:
  CsvParser(std::string_view content, const std::string& file, const CsvOptions& options)
      : rest_(content), file_(file), options_(options) {
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);  // a byte order mark, as spreadsheets write it
  }

  Table run() {
    Table out;
    if (options_.header) {
      skip_blank_lines();
      if (rest_.empty()) refuse("it is empty, and its first row should have the names of the columns");
      do out.names.push_back(field());
      while (!row_ended_);
    }
    int64_t rows = 0, columns = int64_t(out.names.size());
    Shape shape;
    shape.batch = {{count_values()}};
    Array values(shape, options_.dtype);  // filled in place: a list of doubles beside it would be larger than the text
    void* const elements = values.mutable_data();
    int64_t index = 0;
    for (skip_blank_lines(); !rest_.empty(); skip_blank_lines()) {
      int64_t count = 0;
      row_ended_ = false;
      column_ = 1;
      do {
        const int64_t at = column_, line = line_;
        const std::string text = field();
        const std::optional<double> value = number(text);
        if (!value)
          refuse(fmt::format("line {}, column {}: {} is not a number that can be read", line, at, shown(text)) +
                 (rows == 0 && !options_.header ? " (if the first row has names, set `header`)" : ""));
        const std::optional<int64_t> whole = whole_number(text);
        if (whole && !holds_exactly(options_.dtype, *whole) && can_hold(options_.dtype, *value)) {
          const bool in_f64 = holds_exactly(DType::f64, *whole);
          refuse(fmt::format("line {}, column {}: {} is no number of {}, whose nearest one is {}; read the table as {}",
                             line, at, shown(text), name(options_.dtype),
                             fmt::format("{:.0f}", convert(options_.dtype, *value)), in_f64 ? "f64 or i64" : "i64"));
        }
        // An i64 that is not written as one (1e18) is read as a double, which has all digits below 2^53 only.
        const bool as_i64 = options_.dtype == DType::i64;
        const bool fits = can_hold(options_.dtype, *value) && (!as_i64 || std::fabs(*value) < 0x1p53);
        if (!fits && !(as_i64 && whole))
          refuse(fmt::format("line {}, column {}: {} does not fit {}", line, at, shown(text), name(options_.dtype)));
        if (as_i64)  // whose numbers a double need not hold
          store_integer(DType::i64, elements, index++, whole ? *whole : int64_t(*value));
        else
          store(options_.dtype, elements, index++, *value);
        ++count;
      } while (!row_ended_);
      if (columns == 0) columns = count;
      if (count != columns)
        refuse(fmt::format("line {} has {} fields, and the rows before it have {}", line_ - 1, count, columns));
      ++rows;
    }
    shape.batch = {{rows}};
    shape.output = {{columns}};
    out.values = values.reshaped(shape);
    out.file = file_;
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw ConfigError(fmt::format("`{}` is not a usable table: {}.", file_, problem));
  }

  // How many values follow, as far as they can be told apart: where the text is wrong, reading it says so.
  int64_t count_values() const {
    CsvParser ahead = *this;
    int64_t out = 0;
    try {
      for (ahead.skip_blank_lines(); !ahead.rest_.empty(); ahead.skip_blank_lines()) do {
          ahead.field();
          ++out;
        } while (!ahead.row_ended_);
    } catch (const ConfigError&) {
    }
    return out;
  }

  // A separator is no blank: where it is a tab, a line of tabs is a row.
  void skip_blank_lines() {
    while (true) {
      size_t at = 0;
      while (at < rest_.size() && (rest_[at] == ' ' || rest_[at] == '\t') && rest_[at] != options_.separator) ++at;
      const std::string_view after = rest_.substr(at);
      if (after.empty()) return rest_.remove_prefix(at);
      const size_t end = after.starts_with('\n') ? 1 : after.starts_with("\r\n") ? 2 : 0;
      if (end == 0) return;
      rest_.remove_prefix(at + end);
      ++line_;
    }
  }

  // The next field; row_ended_ where its row ends with it.
  std::string field() {
    ++column_;
    std::string out;
    if (rest_.starts_with('"')) {
      out = quoted();
    } else {
      const size_t end = rest_.find_first_of(std::string{options_.separator, '\r', '\n'});
      out = rest_.substr(0, end);
      rest_.remove_prefix(out.size());
    }
    row_ended_ = true;
    if (rest_.starts_with(options_.separator)) {
      rest_.remove_prefix(1);
      row_ended_ = false;
    } else if (rest_.starts_with("\r\n") || rest_.starts_with('\n')) {
      rest_.remove_prefix(rest_.front() == '\r' ? 2 : 1);
      ++line_;
    } else if (!rest_.empty()) {
      refuse(fmt::format("line {}, column {}: {} follows where a field should end", line_, column_ - 1,
                         shown(rest_.substr(0, 1))));
    } else {
      ++line_;
    }
    return out;
  }

  std::string quoted() {
    const int64_t line = line_;
    std::string out;
    for (rest_.remove_prefix(1); !rest_.empty(); rest_.remove_prefix(1)) {
      if (rest_.front() == '\n') ++line_;
      if (rest_.front() == '"') {
        rest_.remove_prefix(1);
        if (!rest_.starts_with('"')) return out;
      }
      out += rest_.front();
    }
    refuse(fmt::format("line {}, column {}: a quote is not closed", line, column_ - 1));
  }

  std::string_view rest_;
  const std::string& file_;
  const CsvOptions& options_;
  int64_t line_ = 1, column_ = 1;
  bool row_ended_ = false;
};

std::string table_text(const Table& table) {
  return table.file.empty() ? "the table" : fmt::format("the table `{}`", table.file);
}
Array columns_of(const Array& values, const std::vector<int64_t>& wanted) {
  const int64_t rows = values.shape().batch.at(0).size, all = values.shape().output.at(0).size;
  Array out({.batch = {rows}, .output = {wanted.size()}}, values.dtype());
  const auto size = size_t(bytes(values.dtype()));
  const auto* from = static_cast<const std::byte*>(values.data());
  auto* to = static_cast<std::byte*>(out.mutable_data());
  for (int64_t r = 0; r < rows; ++r)
    for (const int64_t column : wanted) std::memcpy(to, from + size_t(r * all + column) * size, size), to += size;
  return out;
}
}  // namespace

Array Table::columns(const std::vector<std::string>& wanted, Source where) const {
  const WrittenAt at(where);
  std::vector<int64_t> positions;
  for (const std::string& name : wanted) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      if (names.empty())
        throw ConfigError(
            fmt::format("{} has no names of columns, so there is no column {}; read it with "
                        "{{.header = true}}, or take columns by number.",
                        table_text(*this), shown(name)));
      std::vector<std::string> quoted;
      for (const std::string& known : names) quoted.push_back(shown(known));
      const std::string meant = nearest(name, names);
      throw ConfigError(fmt::format("{} has no column {}; {} has {}.", table_text(*this), shown(name),
                                    meant.empty() ? "it" : fmt::format("did you mean {}? It", shown(meant)),
                                    fmt::join(quoted, ", ")));
    }
    positions.push_back(at - names.begin());
  }
  return columns_of(values, positions);
}

Array Table::columns(int64_t first, int64_t count, Source where) const {
  const WrittenAt at(where);
  const int64_t all = values.shape().output.empty() ? 0 : values.shape().output[0].size;
  if (first < 0 || count < 0 || first > all || count > all - first)
    throw ConfigError(
        fmt::format("columns({}, {}) of {}, which has {} columns.", first, count, table_text(*this), all));
  std::vector<int64_t> positions(static_cast<size_t>(count));
  std::iota(positions.begin(), positions.end(), first);
  return columns_of(values, positions);
}

Table parse_csv(std::string_view content, const std::string& file, const CsvOptions& options, Source where) {
  const WrittenAt at(where);
  return CsvParser(content, file, options).run();
}

Table read_csv(const std::string& path, const CsvOptions& options, Source where) {
  const WrittenAt at(where);
  return naming_memory(path, [&] { return parse_csv(read_unpacked(path, options.limits), path, options); });
}

}  // namespace caravan::data
