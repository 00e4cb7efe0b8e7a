#include "caravan/backend/cc/pool.h"

#include <pthread.h>

#include <system_error>

namespace caravan::cc {

namespace {

constexpr uint64_t kLeft = 0xffffffff;  // mask of the lower half of a ticket
// How often an idle thread looks for work before it sleeps. It takes some tens of microseconds, longer than the time
// between two parallel loops of a program.
constexpr int kSpins = 20'000;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// How many forks lie between this process and the one that made the first pool. (To compare process numbers would take
// a system call for every loop.)
std::atomic<int> generation{0};
int counted_generation() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1); });
  return registered == 0 ? generation.load() : 0;
}

}  // namespace

Pool::Pool(int threads) : generation_(counted_generation()) {
  Shared& shared = *shared_;
  try {
    for (int t = 1; t < threads; ++t) shared.workers.emplace_back([&shared] { shared.work(); });
  } catch (const std::system_error&) {  // the system gives no more threads: the existing ones do the work
  }
}

bool Pool::is_forked() const { return generation_ != generation.load(std::memory_order_relaxed); }

Pool::~Pool() {
  if (is_forked()) {
    // Never freed, nor is the list: they stay reachable from here, so that leak checkers do not report them.
    static std::vector<Shared*>& left = *new std::vector<Shared*>();
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    left.push_back(shared_.release());
    return;
  }
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->wake.notify_all();
  for (std::thread& worker : shared_->workers) worker.join();
}

bool Pool::Shared::run_one() {
  uint64_t now = ticket.load();
  do {
    if ((now & kLeft) == 0) return false;
  } while (!ticket.compare_exchange_weak(now, now - 1));
  chunk.load()(step.load(), int64_t(now & kLeft) - 1);
  done.fetch_add(1);
  return true;
}

void Pool::run(Chunk chunk, const codegen::Step* step, int64_t chunks) {
  Shared& shared = *shared_;
  // The threads do not exist in a forked child, or run the loop of another caller.
  if (is_forked() || shared.busy.exchange(true)) {
    for (int64_t c = 0; c < chunks; ++c) chunk(step, c);
    return;
  }
  shared.chunk = chunk, shared.step = step, shared.done = 0;
  const uint64_t loop = (shared.ticket.load() >> 32) + 1;
  shared.ticket = loop << 32 | uint64_t(chunks);
  if (shared.sleepers.load() > 0) {
    // A worker checks the ticket under this lock before it sleeps, so that no wake-up is lost.
    std::lock_guard lock(shared.mutex);
    shared.wake.notify_all();
  }
  while (shared.run_one()) {
  }
  for (int spins = 0; shared.done.load() < chunks; ++spins)
    if (spins < kSpins)
      pause();
    else
      std::this_thread::yield();
  shared.busy = false;
}

void Pool::Shared::work() {
  while (!stop.load()) {
    for (int spins = 0; spins < kSpins; ++spins) {
      if (run_one())
        spins = 0;
      else
        pause();
    }
    std::unique_lock lock(mutex);
    ++sleepers;
    wake.wait(lock, [&] { return stop.load() || (ticket.load() & kLeft) != 0; });
    --sleepers;
  }
}

}  // namespace caravan::cc
