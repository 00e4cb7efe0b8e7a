#include "caravan/backend/mpi/heartbeat.h"

#include <unistd.h>

#include <string>

#include "caravan/backend/mpi/ending.h"

namespace caravan::mpi {

namespace {

constexpr int kAlive = 1, kWaits = 2;     // tags of messages
constexpr int kAnyProcess = -1;           // MPI_ANY_SOURCE
constexpr std::chrono::seconds kBeat{1};  // from one sign of life to the next

std::string name_of(int process, const Launch& launch) {
  return "process " + std::to_string(process) + " of " + std::to_string(launch.processes);
}

}  // namespace

Heartbeat::Heartbeat(const Launch& launch, const Limits& limits)
    : launch_(launch), limits_(limits), mpi_(library()), next_told_(limits.wait) {
  mpi_.comm_dup(mpi_.world, &comm_);
  thread_ = std::thread([this] { beat(); });
}

void Heartbeat::end() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Heartbeat::beat() {
  const int next = (launch_.rank + 1) % launch_.processes,
            previous = (launch_.rank + launch_.processes - 1) % launch_.processes;
  expect(sign_expected_, previous, kAlive);
  expect(wait_expected_, kAnyProcess, kWaits);
  auto heard = Clock::now(), woken = heard;
  for (std::unique_lock lock(mutex_); !changed_.wait_for(lock, kBeat, [&] { return stop_; });) {
    // A process that was stopped itself has heard nothing meanwhile, and blames nobody for it.
    if (Clock::now() - woken >= kBeat + limits_.silence / 2) heard = Clock::now();
    woken = Clock::now();
    if (is_done(sign_sent_)) send(sign_sent_, next, kAlive);
    for (; is_done(sign_expected_); expect(sign_expected_, previous, kAlive)) heard = Clock::now();
    if (Clock::now() - heard >= limits_.silence) {
      say(name_of(previous, launch_) + " has not answered for " + std::to_string(limits_.silence.count()) +
          " seconds, so all of them stop; the last checkpoint can be resumed.");
      end_all();
    }
    tell_who_is_waited_for();
    for (; is_done(wait_expected_); expect(wait_expected_, kAnyProcess, kWaits))
      say_it_is_waited_for(wait_expected_.seconds);
  }
}

void Heartbeat::send(Message& m, int to, int tag) {
  mpi_.isend(&m.seconds, sizeof m.seconds, mpi_.byte, to, tag, comm_, &m.request);
  m.is_under_way = true;
}
void Heartbeat::expect(Message& m, int from, int tag) {
  mpi_.irecv(&m.seconds, sizeof m.seconds, mpi_.byte, from, tag, comm_, &m.request);
  m.is_under_way = true;
}
bool Heartbeat::is_done(Message& m) {
  int done = 1;
  if (m.is_under_way) mpi_.test(&m.request, &done, nullptr);
  m.is_under_way = !done;
  return done;
}

// Only waits twice as long as the last that was told are told, so that a device that is slow every now and then, such
// as one that writes checkpoints for all, is not spoken of every time.
void Heartbeat::tell_who_is_waited_for() {
  const int process = waits_for_.load(std::memory_order_acquire);
  if (process == kNone || Clock::now() - waits_since_.load(std::memory_order_relaxed) < next_told_) return;
  if (!is_done(wait_sent_)) return;
  wait_sent_.seconds = int(next_told_.count());
  next_told_ *= 2;
  send(wait_sent_, process, kWaits);
}

void Heartbeat::say_it_is_waited_for(int seconds) {
  if (seconds <= most_said_ || waits_for_.load(std::memory_order_relaxed) != kNone) return;
  most_said_ = seconds;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  say("others have waited for " + name_of(launch_.rank, launch_) + " for " + std::to_string(seconds) +
      " seconds; it is alive (process " + std::to_string(getpid()) + " on " + host +
      "), and may be compiling, reading or writing, or be stuck; if it is, Ctrl-C in mpirun ends all of them.");
}

}  // namespace caravan::mpi
