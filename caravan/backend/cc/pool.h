// A thread pool for the chunks of parallel loops. Idle threads first spin, then sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "caravan/codegen/step.h"
#include "caravan/target/target.h"

namespace caravan::cc {

// The pool runs one loop at a time; a second caller at the same time runs its own loop alone. The calling thread works
// too. Each thread first runs its own share of the chunks, a range that is the same in every loop of as many: so what
// it computed in one loop is often in its caches when a later loop reads it. Then it takes chunks of the others, so
// which thread runs a chunk is not determined, but what a chunk computes is. A child of fork() has none of the threads:
// there the caller runs every chunk.
class Pool {
 public:
  explicit Pool(int threads);  // including the caller; fewer if the system does not give so many
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  using Chunk = void (*)(const codegen::Step*, int64_t);
  void run(Chunk chunk, const codegen::Step* step, int64_t chunks);
  int threads() const { return is_forked() ? 1 : int(shared_->workers.size()) + 1; }

 private:
  // What the threads share. In a child of fork() this keeps its state at the fork for ever: a mutex that a thread held
  // stays locked, and a condition variable keeps its waiters. Destroying either would wait for threads that do not
  // exist.
  struct Shared {
    void work(size_t thread);
    bool run_some(size_t thread);  // the thread's share, and what others leave; false if there was nothing
    bool run_share(size_t of, int64_t& count);

    // The share of a thread in the current loop: the number of the loop in the upper 32 bits, the number of chunks that
    // are not yet taken in the lower 32. A thread takes a chunk by an atomic decrement. If that succeeds, the chunk
    // belongs to the current loop, which cannot end before the chunk is done. Each is in a cache line of its own, which
    // stays with its thread unless another one takes a chunk.
    struct alignas(kCacheLine) Share {
      std::atomic<uint64_t> ticket{0};
    };
    std::vector<Share> shares;  // the caller's is the first
    int64_t first_chunk(size_t share) const { return chunks.load() * int64_t(share) / int64_t(shares.size()); }

    std::atomic<int64_t> chunks{0};  // of the current loop
    alignas(kCacheLine) std::atomic<int64_t> done{0};
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
  int generation_;  // generation of the process that made the pool
};

}  // namespace caravan::cc
