#include "caravan/base/error.h"

#include "caravan/base/handle.h"
#include "caravan/base/source.h"

namespace caravan {

void fail_check(const char* condition, const char* file, int line, const std::string& detail) {
  throw InternalError("internal error in Caravan: `" + std::string(condition) + "` does not hold at " +
                      to_string(Source{file, line}) + "; " + detail + ". Please report it.");
}

void refuse_moved(const char* what) {
  throw UserError(std::string(what) + " was used after it was moved from; use what it was moved to, or copy it.");
}

std::string to_string(Source where) {
  if (!where.known()) return "unknown line";
  std::string file = where.file;
  size_t slash = file.find_last_of('/');
  if (slash != std::string::npos) file = file.substr(slash + 1);
  return file + ":" + std::to_string(where.line);
}

std::string where_text(Source where) { return where.known() ? " (" + to_string(where) + ")" : ""; }

}  // namespace caravan
