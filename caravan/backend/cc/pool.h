// Threads that wait for chunks of a parallel loop: briefly by spinning, then asleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "caravan/codegen/c.h"

namespace caravan::cc {

// One loop at a time (a second caller runs its own alone); the caller works with the others. Which thread runs a chunk
// is chance, what a chunk is and computes is not.
class Pool {
 public:
  explicit Pool(int threads);  // the caller's among them; fewer where the system gives no more
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  using Chunk = void (*)(const codegen::Step*, int64_t);
  void run(Chunk chunk, const codegen::Step* step, int64_t chunks);
  int threads() const { return int(workers_.size()) + 1; }

 private:
  void work();
  bool run_one();

  // The number of the loop in the upper half, the chunks left to take in the lower. A chunk is taken by counting down,
  // so whoever takes one knows that its loop is the present one and not yet done.
  std::atomic<uint64_t> ticket_{0};
  std::atomic<int64_t> done_{0};
  std::atomic<Chunk> chunk_{nullptr};
  std::atomic<const codegen::Step*> step_{nullptr};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false}, busy_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace caravan::cc
