#include "caravan/base/shape.h"

#include <charconv>
#include <ostream>

#include "caravan/base/error.h"

namespace caravan {

std::string_view name(RowKind kind) {
  switch (kind) {
    case RowKind::batch: return "batch";
    case RowKind::input: return "input";
    case RowKind::output: return "output";
  }
  return "?";
}

Row& Shape::operator[](RowKind kind) {
  return kind == RowKind::batch ? batch : kind == RowKind::input ? input : output;
}
const Row& Shape::operator[](RowKind kind) const {
  return kind == RowKind::batch ? batch : kind == RowKind::input ? input : output;
}

std::vector<int64_t> Shape::sizes() const {
  std::vector<int64_t> out;
  for (RowKind kind : kMemoryOrder)
    for (const Axis& axis : (*this)[kind]) out.push_back(axis.size);
  return out;
}

int64_t Shape::elements() const {
  int64_t n = 1;
  for (const Row* row : {&batch, &input, &output})
    for (const Axis& axis : *row) n *= axis.size;
  return n;
}

bool same_sizes(const Shape& a, const Shape& b) {
  for (RowKind kind : kRowKinds)
    if (a[kind].size() != b[kind].size()) return false;
  return a.sizes() == b.sizes();
}

namespace {

std::string row_text(const Row& row) {
  std::string out;
  for (const Axis& axis : row) {
    if (!out.empty()) out += ',';
    out += std::to_string(axis.size);
    if (!axis.basis.empty()) out += axis.basis;
  }
  return out;
}

Row parse_row(std::string_view text, std::string_view whole) {
  Row row;
  size_t at = 0;
  auto blank = [&] {
    while (at < text.size() && text[at] == ' ') ++at;
  };
  blank();
  if (at == text.size()) return row;
  while (true) {
    blank();
    Axis axis;
    auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), axis.size);
    if (error != std::errc() || axis.size < 0)
      throw SpecError("shape \"" + std::string(whole) + "\": expected a size such as 3 in `" + std::string(text) +
                      "`; write shapes as `batch | input -> output`, for example `2,8|3->4`.");
    at = size_t(end - text.data());
    while (at < text.size() &&
           ((text[at] >= 'a' && text[at] <= 'z') || (text[at] >= 'A' && text[at] <= 'Z') || text[at] == '_'))
      axis.basis += text[at++];
    row.push_back(axis);
    blank();
    if (at == text.size()) return row;
    if (text[at] != ',')
      throw SpecError("shape \"" + std::string(whole) + "\": expected `,` before `" + std::string(text.substr(at)) +
                      "`.");
    ++at;
  }
}

}  // namespace

std::string to_string(const Shape& shape) {
  std::string out;
  if (!shape.batch.empty()) out += row_text(shape.batch) + "|";
  if (!shape.input.empty()) out += row_text(shape.input) + "->";
  return out + row_text(shape.output);
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

Shape parse_shape(std::string_view text, Source where) {
  const WrittenAt at(where);
  Shape shape;
  std::string_view rest = text;
  if (size_t bar = rest.find('|'); bar != rest.npos) {
    shape.batch = parse_row(rest.substr(0, bar), text);
    rest = rest.substr(bar + 1);
  }
  if (size_t arrow = rest.find("->"); arrow != rest.npos) {
    shape.input = parse_row(rest.substr(0, arrow), text);
    rest = rest.substr(arrow + 2);
  }
  shape.output = parse_row(rest, text);
  return shape;
}

}  // namespace caravan
