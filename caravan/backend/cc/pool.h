// A few persistent threads that run the chunks of a parallel loop. Who runs which chunk varies; what a chunk is does
// not, so results never depend on the number of threads. Idle threads spin briefly, then sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace caravan::cc {

class Pool {
 public:
  explicit Pool(int threads);  // the caller is one of them
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return int(workers_.size()) + 1; }

  // body(context, chunk) for 0 <= chunk < chunks; returns when all are done. Bodies must not throw.
  using Body = void (*)(void* context, int64_t chunk);
  void run(int64_t chunks, Body body, void* context);

 private:
  void work();
  void take_chunks(uint64_t job);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  // One job at a time. `ticket_` holds the job's number in the high half and the next chunk in the low half, so that a
  // thread that wakes late cannot take a chunk of a job that is not its own.
  std::atomic<uint64_t> ticket_{0};
  std::atomic<uint64_t> job_{0};
  std::atomic<int64_t> left_{0};
  std::atomic<int64_t> chunks_{0};
  Body body_ = nullptr;
  void* context_ = nullptr;
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace caravan::cc
