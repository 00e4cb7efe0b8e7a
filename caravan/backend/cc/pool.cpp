#include "caravan/backend/cc/pool.h"

#include <system_error>

namespace caravan::cc {

namespace {

constexpr uint64_t kLeft = 0xffffffff;  // the lower half of a ticket
constexpr int kSpins = 20'000;          // some tens of microseconds, longer than what lies between two loops of a step

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

Pool::Pool(int threads) {
  try {
    for (int t = 1; t < threads; ++t) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // the system gives no more: those that there are do the work
  }
}

Pool::~Pool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bool Pool::run_one() {
  uint64_t ticket = ticket_.load();
  do {
    if ((ticket & kLeft) == 0) return false;
  } while (!ticket_.compare_exchange_weak(ticket, ticket - 1));
  chunk_.load()(step_.load(), int64_t(ticket & kLeft) - 1);
  done_.fetch_add(1);
  return true;
}

void Pool::run(Chunk chunk, const codegen::Step* step, int64_t chunks) {
  if (busy_.exchange(true)) {  // with another caller's loop
    for (int64_t c = 0; c < chunks; ++c) chunk(step, c);
    return;
  }
  chunk_ = chunk, step_ = step, done_ = 0;
  const uint64_t loop = (ticket_.load() >> 32) + 1;
  ticket_ = loop << 32 | uint64_t(chunks);
  if (sleepers_.load() > 0) {
    std::lock_guard lock(mutex_);  // a worker that is about to sleep has looked at the ticket under it
    wake_.notify_all();
  }
  while (run_one()) {
  }
  for (int spins = 0; done_.load() < chunks; ++spins)
    if (spins < kSpins)
      pause();
    else
      std::this_thread::yield();
  busy_ = false;
}

void Pool::work() {
  while (!stop_.load()) {
    for (int spins = 0; spins < kSpins; ++spins) {
      if (run_one())
        spins = 0;
      else
        pause();
    }
    std::unique_lock lock(mutex_);
    ++sleepers_;
    wake_.wait(lock, [&] { return stop_.load() || (ticket_.load() & kLeft) != 0; });
    --sleepers_;
  }
}

}  // namespace caravan::cc
