#include "caravan/base/source.h"

#include <cstring>

namespace caravan {

namespace {
thread_local Source current_call;

// Headers of the standard library lie in .../include/c++/VERSION (GCC) or .../include/c++/v1 (Clang).
bool is_of_standard_library(const char* file) { return std::strstr(file, "/include/c++/") != nullptr; }
}  // namespace

Source Source::here(const char* file, int line) {
  if (current_call.known()) return current_call;
  return is_of_standard_library(file) ? Source{} : Source{file, line};
}
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
