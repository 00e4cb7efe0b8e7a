#include "caravan/runtime/compile_notice.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

namespace caravan {

namespace {

class Notice {
 public:
  ~Notice() { end(); }  // also where the compilation failed

  void at(int done, int total) {
    if (done == total) return end();
    {
      const std::lock_guard lock(mutex_);
      done_ = done, total_ = total;
      if (drawn_) draw();
    }
    if (!clock_.joinable()) clock_ = std::thread([this] { wait(); });
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(1), [this] { return ended_; })) draw();
  }
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    if (clock_.joinable()) clock_.join();
    if (drawn_) write("\r\x1b[K");
    drawn_ = ended_ = false;
  }
  void draw() {
    std::string line = "\rcompiling";
    if (total_ > 1) line += ": " + std::to_string(done_) + " of " + std::to_string(total_) + " parts";
    write(line + "\x1b[K");
    drawn_ = true;
  }
  static void write(const std::string& text) {
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread clock_;
  int done_ = 0, total_ = 1;
  bool drawn_ = false, ended_ = false;
};

}  // namespace

std::function<void(int, int)> notice_on_terminal() {
  const char* terminal = std::getenv("TERM");
  if (!isatty(STDERR_FILENO) || (terminal && std::strcmp(terminal, "dumb") == 0)) return {};
  return [notice = std::make_shared<Notice>()](int done, int total) { notice->at(done, total); };
}

}  // namespace caravan
