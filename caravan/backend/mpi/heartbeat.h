// Signs of life of processes, by a thread and messages of its own, which go on while the device computes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "caravan/backend/mpi/library.h"
#include "caravan/backend/mpi/mpi.h"

namespace caravan::mpi {

// Each process sends a sign of life to the next one of a ring every second. One that has had none for Limits::silence
// says so and ends all of them.
//
// Signs of life do not tell whether a process computes or is stuck. So one that waits for another longer than
// Limits::wait tells it so. If the other does not wait itself, it is the one that all wait for in the end, and it says
// so in a line: one line, however many processes wait.
class Heartbeat {
 public:
  using Clock = std::chrono::steady_clock;

  // All processes make it together.
  Heartbeat(const Launch& launch, const Limits& limits);
  void end();

  // The device waits for a message from or to that process, since then. Called by one thread at a time.
  void waits_for(int process, Clock::time_point since) {
    waits_since_.store(since, std::memory_order_relaxed);
    waits_for_.store(process, std::memory_order_release);
  }
  void waits_no_more() { waits_for_.store(kNone, std::memory_order_relaxed); }

 private:
  static constexpr int kNone = -1;
  // A message that is sent or expected again and again, and its memory.
  struct Message {
    int seconds = 0;
    Library::Request request = nullptr;
    bool is_under_way = false;
  };

  void beat();
  void send(Message& message, int to, int tag);
  void expect(Message& message, int from, int tag);
  bool is_done(Message& message);
  void tell_who_is_waited_for();
  void say_it_is_waited_for(int seconds);

  const Launch launch_;
  const Limits limits_;
  const Library& mpi_;
  Library::Comm comm_ = nullptr;

  Message sign_sent_, sign_expected_, wait_sent_, wait_expected_;
  std::chrono::seconds next_told_;  // how long a wait must be to be told
  int most_said_ = 0;               // seconds of a wait

  std::atomic<int> waits_for_{kNone};
  std::atomic<Clock::time_point> waits_since_{Clock::time_point()};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace caravan::mpi
