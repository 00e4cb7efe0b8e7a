#include "caravan/base/source.h"

namespace caravan {

namespace {
thread_local Source current_call;
}

Source Source::here(const char* file, int line) { return current_call.known() ? current_call : Source{file, line}; }
Source Source::call() { return current_call; }

WrittenAt::WrittenAt(Source where) : before_(current_call) { current_call = where; }
WrittenAt::~WrittenAt() { current_call = before_; }

std::string to_string(Source where) {
  if (!where.known()) return "unknown line";
  std::string file = where.file;
  size_t slash = file.find_last_of('/');
  if (slash != std::string::npos) file = file.substr(slash + 1);
  return file + ":" + std::to_string(where.line);
}

std::string where_text(Source where) { return where.known() ? " (" + to_string(where) + ")" : ""; }

}  // namespace caravan
