// Threads that wait for chunks of a parallel loop: briefly by spinning, then asleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "caravan/codegen/c.h"

namespace caravan::cc {

// One loop at a time (a second caller runs its own alone); the caller works with the others. Which thread runs a chunk
// is chance, what a chunk is and computes is not. A child of fork() has none of the threads: there the caller runs
// every chunk.
class Pool {
 public:
  explicit Pool(int threads);  // the caller's among them; fewer where the system gives no more
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  using Chunk = void (*)(const codegen::Step*, int64_t);
  void run(Chunk chunk, const codegen::Step* step, int64_t chunks);
  int threads() const { return is_forked() ? 1 : int(shared_->workers.size()) + 1; }

 private:
  // What the threads share. In a child of fork() it stays as it was at that moment, for ever: a lock that a thread held
  // is held, a condition that threads waited for has waiters, and destroying either would wait for them.
  struct Shared {
    void work();
    bool run_one();

    // The number of the loop in the upper half, the chunks left to take in the lower. A chunk is taken by counting
    // down, so whoever takes one knows that its loop is the present one and not yet done.
    std::atomic<uint64_t> ticket{0};
    std::atomic<int64_t> done{0};
    std::atomic<Chunk> chunk{nullptr};
    std::atomic<const codegen::Step*> step{nullptr};
    std::atomic<int> sleepers{0};
    std::atomic<bool> stop{false}, busy{false};
    std::mutex mutex;
    std::condition_variable wake;
    std::vector<std::thread> workers;
  };
  bool is_forked() const;  // is this a child of the process that made the pool?

  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
  int generation_;  // of the process that made it
};

}  // namespace caravan::cc
