#include "caravan/base/error.h"

#include <string_view>

#include "caravan/base/handle.h"
#include "caravan/base/source.h"

namespace caravan {

namespace {

// Is it a source of the library or of the command? They lie in folders beside that of this file.
bool is_ours(std::string_view file) {
  constexpr std::string_view kThis = "caravan/base/error.cpp", kPath = Source::exactly().file;
  static_assert(kPath.ends_with(kThis));
  constexpr std::string_view kRoot = kPath.substr(0, kPath.size() - kThis.size());
  if (!file.starts_with(kRoot)) return false;
  file.remove_prefix(kRoot.size());
  return file.starts_with("caravan/") || file.starts_with("apps/");
}

// The line of the user's call, if it is one of the user's.
Source line_of_call() {
  const Source call = Source::call();
  return is_ours(call.file) ? Source{} : call;
}

}  // namespace

UserError::UserError(const std::string& message, Source where)
    : Error(where.known() ? message : message + where_text(line_of_call())),
      where_(where.known() ? where : line_of_call()) {}

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
