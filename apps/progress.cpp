#include "apps/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace caravan::app {

Progress::Progress(int64_t total, int64_t lines, bool quiet)
    : total_(total),
      every_(lines == 0 ? 0 : std::max<int64_t>(1, total / lines)),
      bar_(isatty(STDERR_FILENO) && isatty(STDOUT_FILENO)),
      quiet_(quiet) {}

Progress::~Progress() { clear(); }

void Progress::at(int64_t done, const std::string& note) {
  if (quiet_) return;
  if (!bar_) {
    if (every_ != 0 && (done % every_ == 0 || done == total_))
      std::cout << note << std::endl;  // seen now, not when the buffer is full
    return;
  }
  const int percent = int(100 * done / total_);
  if (percent == percent_) return;
  percent_ = percent;
  constexpr int kWidth = 30;
  std::string filled, rest;
  for (int i = 0; i < kWidth; ++i)
    (i < percent * kWidth / 100 ? filled : rest) += i < percent * kWidth / 100 ? "█" : "░";
  fmt::print(stderr, "\r{}{} {:3}%  {}\x1b[K", filled, rest, percent, note);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace caravan::app
