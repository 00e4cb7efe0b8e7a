// Three families of errors: the user's, ours, the machine's. The library never prints and never aborts.
//
// A message is one sentence or two: what is wrong, the values, where in the user's program, what to try.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

#include "caravan/base/source.h"

namespace caravan {

// What all errors of the library are.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The user's: the program, its input or its settings are wrong. Nothing has been changed. A message without a line is
// given that of the user's call that the library works for (WrittenAt), where there is one; a line of the library or of
// its command is none.
class UserError : public Error {
 public:
  // `where` is the line that the message names, if it names one.
  explicit UserError(const std::string& message, Source where = {});
  Source where() const { return where_; }  // the line that it names; not known if it names none

 private:
  Source where_;
};
class SpecError : public UserError {  // a spec that does not parse or does not fit its operands
 public:
  using UserError::UserError;
};
class ShapeError : public UserError {  // shapes that cannot be, or are not determined
 public:
  using UserError::UserError;
};
class DTypeError : public UserError {  // a precision that does not fit
 public:
  using UserError::UserError;
};
class GradientError : public UserError {  // a gradient that does not exist
 public:
  using UserError::UserError;
};
class StateError : public UserError {  // names, initialisation, reads and writes of state; index ranges
 public:
  using UserError::UserError;
};
class ConfigError : public UserError {  // settings, options, files
 public:
  using UserError::UserError;
};

// Ours: an invariant of Caravan does not hold.
class InternalError : public Error {
 public:
  using Error::Error;
};

// The machine's: a compiler, a device, a disk.
class BackendError : public Error {
 public:
  using Error::Error;
};

// Inside: a message without its full stop, to stand in a sentence.
std::string without_full_stop(std::string message);
// Inside: what an error says, likewise.
std::string reason_of(const std::exception& error);

// Inside: throws the InternalError of CARAVAN_CHECK.
[[noreturn]] void fail_check(const char* condition, const char* file, int line, const std::string& detail);

}  // namespace caravan

// An invariant of ours. `detail` says what was being looked at; it is evaluated only on failure.
#define CARAVAN_CHECK(condition, detail) \
  ((condition) ? void(0) : ::caravan::fail_check(#condition, __FILE__, __LINE__, (detail)))
