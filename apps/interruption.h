// Ctrl-C as something to look at between two pieces of work; a second one ends the program at once.
#pragma once

namespace caravan::app {

class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  static bool asked();  // since the program began

 private:
  void (*before_)(int);
};

}  // namespace caravan::app
