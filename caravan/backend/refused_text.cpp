#include "caravan/backend/refused_text.h"

#include <utility>

namespace caravan::backend {

RefusedTextError::RefusedTextError(std::string sentence, std::string command, std::string source, std::string log)
    : BackendError(sentence + "\n  command: " + command + "\n  source:  " + source + "\n  log:     " + log),
      sentence(std::move(sentence)),
      command(std::move(command)),
      source(std::move(source)),
      log(std::move(log)) {}

std::string brief(const std::exception& error) {
  const auto* refused = dynamic_cast<const RefusedTextError*>(&error);
  if (!refused) return reason_of(error);
  const std::string first = refused->log.substr(0, refused->log.find('\n'));
  return without_full_stop(refused->sentence) + (first.empty() ? "" : ": " + first);
}

}  // namespace caravan::backend
