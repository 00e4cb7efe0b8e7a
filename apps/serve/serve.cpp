// caravan serve: the page on loopback, until Ctrl-C.
#include <fmt/format.h>

#include <csignal>
#include <iostream>

#include "apps/commands.h"
#include "apps/serve/digit_source.h"
#include "apps/serve/server.h"
#include "caravan/backend/cc/run_command.h"
#include "caravan/base/error.h"

namespace caravan::app {

namespace {

// The signals that end the page. Threads that start after this leave them to come_within(); after the first one they do
// what they do to any program, so that a second one ends it at once.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    for (int signal : kSignals) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  bool come_within(long milliseconds) const {
    const timespec time{milliseconds / 1000, milliseconds % 1000 * 1'000'000};
    if (sigtimedwait(&set_, nullptr, &time) <= 0) return false;
    for (int signal : kSignals) std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
    return true;
  }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
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
  if (!server.on_loopback())
    std::cerr << "caravan: warning: others on the network can reach the page, and there is no password.\n";
  while (!stop.come_within(200))
    if (!server.listens())
      throw BackendError(fmt::format("cannot listen on {} any more; start the page again.", server.address()));
  cc::end_commands();
  return kDone;
}

}  // namespace caravan::app
