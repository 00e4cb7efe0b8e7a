// caravan serve: the page on loopback, until Ctrl-C.
#include <fmt/format.h>

#include <csignal>
#include <iostream>

#include "apps/commands.h"
#include "apps/serve/digit_source.h"
#include "apps/serve/server.h"

namespace caravan::app {

namespace {

// Threads that start after this leave the signals to wait().
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    for (int signal : {SIGINT, SIGTERM}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  void wait() const {
    int signal = 0;
    sigwait(&set_, &signal);
  }

 private:
  sigset_t set_;
};

}  // namespace

int serve_command(const ServeOptions& options, const Settings& settings) {
  const StopSignals stop;
  ContextOptions context;
  context.device = settings.device();
  context.cache = settings.cache();
  context.threads = 1;  // steps of microseconds; the clients are what runs side by side
  serve::Digits digits;
  serve::Playground playground(context);
  const DigitSource source(options.file, settings, digits);
  const serve::Server server({.host = options.host, .port = options.port}, digits, playground);
  std::cout << fmt::format("The page is at {} (Ctrl-C stops it).\n", server.address()) << std::flush;
  stop.wait();
  return kDone;
}

}  // namespace caravan::app
