// Where in the user's program something was written.
#pragma once

#include <string>

namespace caravan {

// Converting constructors and public functions take `Source where = here()` through defaulted
// arguments, so that the position is the caller's. (Clang 14 lacks a working std::source_location.)
struct Source {
  const char* file = "";  // the path that the compiler was given
  int line = 0;           // from 1; 0: not known

  // The line that calls it; inside the library, while it works for a call of the user's, the line of that call. Not
  // known if the standard library calls it, as for a layer in a std::function.
  static Source here(const char* file = __builtin_FILE(), int line = __builtin_LINE());
  // The line that calls it, whatever the library works for. Unlike `here` it costs nothing, so it is for functions that
  // are called for every element.
  static constexpr Source exactly(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  // The same as `here` of a line that is known.
  static Source here(Source written) { return here(written.file, written.line); }
  static Source call();  // the line of the user's call that the library works for; not known outside of one
  bool known() const { return line > 0; }  // whether there is a line
};

// While one lives, what this thread makes was written at `where`: a layer is many lines of ours and one of the user's.
// A `where` that is not known gives every line its own position again.
class WrittenAt {
 public:
  explicit WrittenAt(Source where);
  ~WrittenAt();
  WrittenAt(const WrittenAt&) = delete;
  WrittenAt& operator=(const WrittenAt&) = delete;

 private:
  Source before_;
};

std::string to_string(Source where);   // "moons.cpp:12"; the folder is dropped
std::string where_text(Source where);  // " (moons.cpp:12)", to follow a name in a message; empty where it is not known

}  // namespace caravan
