#include "caravan/backend/note.h"

#include <charconv>

namespace caravan::backend {

NoteWriter& NoteWriter::number(int64_t number) { return name(std::to_string(number)); }
NoteWriter& NoteWriter::name(std::string_view name) {
  text_.append(name) += ' ';
  return *this;
}

std::string_view NoteReader::word() {
  const size_t end = rest_.find(' ');
  right_ = right_ && end != rest_.npos;
  if (!right_) return "";
  const std::string_view out = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  return out;
}
int64_t NoteReader::number(int64_t most) {
  const std::string_view digits = word();
  int64_t out = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  right_ = right_ && error == std::errc() && end == digits.data() + digits.size() && out >= 0 && out <= most;
  return right_ ? out : 0;
}
std::string NoteReader::name() { return std::string(word()); }

}  // namespace caravan::backend
