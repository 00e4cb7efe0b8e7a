#include "apps/interruption.h"

#include <csignal>

namespace caravan::app {

namespace {

volatile std::sig_atomic_t asked_for = 0;

}  // namespace

Interruption::Interruption()
    : before_(std::signal(SIGINT, [](int) {
        asked_for = 1;
        std::signal(SIGINT, SIG_DFL);
      })) {}
Interruption::~Interruption() { std::signal(SIGINT, before_); }

bool Interruption::asked() { return asked_for != 0; }

}  // namespace caravan::app
