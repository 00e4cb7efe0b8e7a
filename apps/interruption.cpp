#include "apps/interruption.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <iterator>

namespace caravan::app {

namespace {

// One wish to stop may come as several signals: `timeout` sends its signal to the program and to its group, a closed
// terminal sends SIGHUP from the shell and from the kernel. Signals that follow the first one this closely are that
// wish; nobody types Ctrl-C twice so fast.
constexpr int64_t kOneWishMilliseconds = 300;

std::atomic<int> first_signal = 0;
std::atomic<int64_t> first_time = 0;  // in milliseconds; 0: not yet
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1000 + time.tv_nsec / 1'000'000;
}

// Calls only what a signal handler may call.
void hear(int signal) {
  const int kept = errno;
  int64_t none = 0;
  if (first_time.compare_exchange_strong(none, now())) {
    first_signal = signal;
  } else if ((signal == SIGINT || signal == SIGTERM) && now() - first_time > kOneWishMilliseconds) {
    std::signal(signal, SIG_DFL);
    raise(signal);  // ends the program when this function returns
  }
  errno = kept;
}

}  // namespace

// Whoever started the program with SIGHUP ignored (nohup), or SIGTERM or SIGPIPE, meant it. SIGINT is caught in any
// case: shells without job control ignore it for everything that they start with `&`.
Interruption::Interruption() {
  struct sigaction action {};
  action.sa_handler = hear;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN || kSignals[i] == SIGINT) sigaction(kSignals[i], &action, nullptr);
  }
}

Interruption::~Interruption() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int Interruption::signal() { return first_signal; }

}  // namespace caravan::app
