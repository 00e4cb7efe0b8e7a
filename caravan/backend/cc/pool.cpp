#include "caravan/backend/cc/pool.h"

namespace caravan::cc {

namespace {
constexpr int kSpins = 2000;  // a few microseconds

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}
}  // namespace

Pool::Pool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

Pool::~Pool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    job_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void Pool::take_chunks(uint64_t job) {
  uint64_t now = ticket_.load(std::memory_order_acquire);
  while (now >> 32 == (job & 0xffffffff)) {
    int64_t chunk = int64_t(now & 0xffffffff);
    if (chunk >= chunks_.load(std::memory_order_relaxed)) return;
    if (!ticket_.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel)) continue;
    body_(context_, chunk);
    left_.fetch_sub(1, std::memory_order_acq_rel);
    now = ticket_.load(std::memory_order_acquire);
  }
}

void Pool::run(int64_t chunks, Body body, void* context) {
  if (workers_.empty() || chunks <= 1) {
    for (int64_t c = 0; c < chunks; ++c) body(context, c);
    return;
  }
  uint64_t job = job_.load(std::memory_order_relaxed) + 1;
  // No thread reads these now: the last job's chunks are all done, and none can be taken before the ticket is set.
  chunks_.store(chunks, std::memory_order_relaxed), body_ = body, context_ = context;
  left_.store(chunks, std::memory_order_relaxed);
  ticket_.store((job & 0xffffffff) << 32, std::memory_order_release);
  job_.store(job);  // sequentially consistent with sleepers_: either we see the sleeper or it sees the job
  if (sleepers_.load() > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  take_chunks(job);
  while (left_.load(std::memory_order_acquire) > 0) relax();
}

void Pool::work() {
  uint64_t seen = 0;
  while (true) {
    int spins = 0;
    while (job_.load(std::memory_order_acquire) == seen && spins < kSpins) ++spins, relax();
    if (job_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1);
      wake_.wait(lock, [&] { return job_.load() != seen; });
      sleepers_.fetch_sub(1);
    }
    seen = job_.load(std::memory_order_acquire);
    if (stop_) return;
    take_chunks(seen);
  }
}

}  // namespace caravan::cc
