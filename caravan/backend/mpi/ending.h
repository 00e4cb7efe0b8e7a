// How a process ends that cannot go on, and the others with it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace caravan::mpi {

inline constexpr int kFailed = 3;  // exit code: the machine failed

// Writes a line to the standard error, at once, so that lines of processes do not mix.
void say(const std::string& text);

// Asks mpirun to end all processes. This one ends even if mpirun does not answer.
[[noreturn]] void end_all();

// Functions of MPI that wait for other processes cannot be interrupted. While there is such an object, the process ends
// when the limit is over, with a message unless that is empty; mpirun notices, and ends the others.
class TimeLimit {
 public:
  TimeLimit(std::chrono::seconds limit, std::string message);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;  // what was limited
  std::thread thread_;
};

}  // namespace caravan::mpi
