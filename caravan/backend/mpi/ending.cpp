#include "caravan/backend/mpi/ending.h"

#include <unistd.h>

#include "caravan/backend/mpi/library.h"

namespace caravan::mpi {

void say(const std::string& text) {
  const std::string line = "caravan: " + text + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

void end_all() {
  constexpr std::chrono::seconds kAnswer{5};  // of mpirun, which needs some milliseconds
  const TimeLimit limit(kAnswer, "");
  library().abort(library().world, kFailed);
  _exit(kFailed);
}

TimeLimit::TimeLimit(std::chrono::seconds limit, std::string message)
    : thread_([this, limit, message = std::move(message)] {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, limit, [&] { return is_over_; })) return;
        if (!message.empty()) say(message);
        _exit(kFailed);
      }) {}

TimeLimit::~TimeLimit() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace caravan::mpi
