// A compiler refuses generated text.
#pragma once

#include <exception>
#include <string>

#include "caravan/base/error.h"

namespace caravan::backend {

// Its message has all fields, each on a line of its own.
class RefusedTextError : public BackendError {
 public:
  RefusedTextError(std::string sentence, std::string command, std::string source, std::string log);
  std::string sentence;  // which compiler failed, and how
  std::string command;   // how it was called
  std::string source;    // path of the text, or the folder of several
  std::string log;       // what the compiler said
};

// What an error says, in one line without a full stop. Of a refused text: the sentence, and the first line of the log.
std::string brief(const std::exception& error);

}  // namespace caravan::backend
