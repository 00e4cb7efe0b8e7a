#include "caravan/backend/cc/pool.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "caravan/target/waits.h"

namespace caravan::cc {

namespace {

constexpr uint64_t kLeft = 0xffffffff;  // mask of the lower half of a ticket

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
  shared.shares = std::vector<Shared::Share>(size_t(std::max(threads, 1)));
  try {
    for (int t = 1; t < threads; ++t) shared.workers.emplace_back([&shared, t] { shared.work(size_t(t)); });
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

// Runs what is left of a share, and adds to `count`. False if nothing was left.
bool Pool::Shared::run_share(size_t of, int64_t& count) {
  std::atomic<uint64_t>& ticket = shares[of].ticket;
  const int64_t before = count;
  for (uint64_t now = ticket.load(); (now & kLeft) != 0;) {
    if (!ticket.compare_exchange_weak(now, now - 1)) continue;
    chunk.load()(step.load(), first_chunk(of) + int64_t(now & kLeft) - 1);
    ++count;
    now = ticket.load();
  }
  return count > before;
}
bool Pool::Shared::run_some(size_t thread) {
  int64_t count = 0;
  for (size_t k = 0; k < shares.size(); ++k) run_share((thread + k) % shares.size(), count);
  if (count > 0) done.fetch_add(count);
  return count > 0;
}

void Pool::run(Chunk chunk, const codegen::Step* step, int64_t chunks) {
  Shared& shared = *shared_;
  // The threads do not exist in a forked child, or run the loop of another caller.
  if (is_forked() || shared.busy.exchange(true)) {
    for (int64_t c = 0; c < chunks; ++c) chunk(step, c);
    return;
  }
  shared.chunk = chunk, shared.step = step, shared.chunks = chunks, shared.done = 0;
  const uint64_t loop = (shared.shares[0].ticket.load() >> 32) + 1;
  // Others first: the caller's own share is ready when it gets there. The last store is ordered before the load of
  // `sleepers`.
  for (size_t t = shared.shares.size(); t-- > 0;)
    shared.shares[t].ticket.store(loop << 32 | uint64_t(shared.first_chunk(t + 1) - shared.first_chunk(t)));
  if (shared.sleepers.load() > 0) {
    // A worker checks the ticket under this lock before it sleeps, so that no wake-up is lost.
    std::lock_guard lock(shared.mutex);
    shared.wake.notify_all();
  }
  shared.run_some(0);
  for (int spins = 0; shared.done.load() < chunks; ++spins)
    if (spins < kPoolSpins)
      pause();
    else
      std::this_thread::yield();
  shared.busy = false;
}

// A thread watches its own share only. If that is empty, there are fewer chunks than threads, or others have taken it.
void Pool::Shared::work(size_t thread) {
  const std::atomic<uint64_t>& ticket = shares[thread].ticket;
  auto has_work = [&] { return (ticket.load() & kLeft) != 0; };
  while (!stop.load()) {
    for (int spins = 0; spins < kPoolSpins; ++spins) {
      if (has_work() && run_some(thread))
        spins = 0;
      else
        pause();
    }
    std::unique_lock lock(mutex);
    ++sleepers;
    wake.wait(lock, [&] { return stop.load() || has_work(); });
    --sleepers;
  }
}

}  // namespace caravan::cc
