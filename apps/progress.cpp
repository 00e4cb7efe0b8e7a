#include "apps/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "apps/terminal.h"
#include "caravan/base/list_text.h"
#include "caravan/plot/words.h"

namespace caravan::app {

namespace {

constexpr auto kBetween = std::chrono::milliseconds(60);  // two drawings: as often as an eye can follow

}  // namespace

Progress::Progress(int64_t total, const ProgressOptions& options)
    : total_(std::max<int64_t>(total, 1)),
      every_(options.lines == 0 ? 0 : std::max<int64_t>(1, total / options.lines)),
      redrawn_(!options.quiet && redraws() && (options.json || isatty(STDOUT_FILENO))),
      written_(!options.quiet && !options.json && !redrawn_ && options.lines != 0) {}

Progress::~Progress() { clear(); }

bool Progress::wants(int64_t done) const {
  if (redrawn_) return std::chrono::steady_clock::now() - last_ >= kBetween;
  return written_ && (done % every_ == 0 || done == total_);
}

void Progress::at(int64_t done, const std::vector<std::string>& notes) {
  if (!wants(done)) return;
  if (redrawn_)
    draw(done, notes);
  else
    std::cout << joined(notes) << std::endl;  // seen now, not when the buffer is full
}

void Progress::draw(int64_t done, const std::vector<std::string>& notes) {
  constexpr int kBar = 6;
  last_ = std::chrono::steady_clock::now();
  const Screen screen = error_screen();
  const auto filled = size_t(kBar * done / total_);
  std::string full, rest;
  for (size_t i = 0; i < kBar; ++i) (i < filled ? full : rest) += i < filled ? "█" : "░";
  std::string line = screen.styled(Style::blue, full) + screen.styled(Style::faint, rest) +
                     fmt::format(" {:3} %", 100 * done / total_);
  int64_t column = kBar + 6;
  for (const std::string& note : notes) {
    const int64_t wide = 2 + plot::columns(note);
    if (column + wide >= screen.width) continue;
    line += "  " + note, column += wide;
  }
  std::cerr << "\r" + line + "\x1b[K" << std::flush;
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) std::cerr << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

}  // namespace caravan::app
