#include "caravan/base/error.h"

#include <string_view>

#include "caravan/base/handle.h"
#include "caravan/base/source.h"

namespace caravan {

namespace {

// Does the text name a line, "moons.cpp:12"?
bool names_a_line(const std::string& text) {
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  auto of_file = [&](char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  for (size_t colon = text.find(':'); colon != text.npos; colon = text.find(':', colon + 1)) {
    if (colon + 1 >= text.size() || !is_digit(text[colon + 1])) continue;
    size_t from = colon;
    while (from > 0 && of_file(text[from - 1])) --from;
    if (from < colon && from > 0 && text[from - 1] == '.') return true;
  }
  return false;
}

// Is it a source of the library or of the command? They lie in folders beside that of this file.
bool is_ours(std::string_view file) {
  constexpr std::string_view kThis = "caravan/base/error.cpp", kPath = Source::exactly().file;
  static_assert(kPath.ends_with(kThis));
  constexpr std::string_view kRoot = kPath.substr(0, kPath.size() - kThis.size());
  if (!file.starts_with(kRoot)) return false;
  file.remove_prefix(kRoot.size());
  return file.starts_with("caravan/") || file.starts_with("apps/");
}

std::string with_line(const std::string& message) {
  const Source call = Source::call();
  return names_a_line(message) || is_ours(call.file) ? message : message + where_text(call);
}

}  // namespace

UserError::UserError(const std::string& message) : Error(with_line(message)) {}

std::string without_full_stop(std::string message) {
  if (message.ends_with('.')) message.pop_back();
  return message;
}
std::string reason_of(const std::exception& error) { return without_full_stop(error.what()); }

void fail_check(const char* condition, const char* file, int line, const std::string& detail) {
  throw InternalError("internal error in Caravan: `" + std::string(condition) + "` does not hold at " +
                      to_string(Source{file, line}) + "; " + detail + ". Please report it.");
}

void refuse_moved(const char* what) {
  throw UserError(std::string(what) + " was used after it was moved from; use what it was moved to, or copy it.");
}

}  // namespace caravan
