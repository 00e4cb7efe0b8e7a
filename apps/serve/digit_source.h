// Where the page's model of digits comes from: a file, the cache, or a training run in the background.
#pragma once

#include <string>
#include <thread>

#include "apps/serve/digits.h"
#include "apps/settings.h"

namespace caravan::app {

class DigitSource {
 public:
  // A file that is given is loaded here; ConfigError where it is no model of digits, or where a folder of data was
  // given and has none. The rest happens in a thread, which tells `digits`.
  DigitSource(const std::string& file, const Settings& settings, serve::Digits& digits);
  ~DigitSource();  // a training run is left where it is

 private:
  std::jthread thread_;
};

}  // namespace caravan::app
