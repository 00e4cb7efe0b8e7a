#include "caravan/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace caravan {

void in_parallel(int64_t count, int threads, const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> next = 0;
  std::mutex failing;
  std::exception_ptr failed;
  auto work_on = [&] {
    for (int64_t n; (n = next++) < count;) try {
        work(n);
      } catch (...) {
        const std::lock_guard lock(failing);
        if (!failed) failed = std::current_exception();
        next = count;
      }
  };
  std::vector<std::thread> others;
  try {
    for (int64_t t = 1, most = std::min<int64_t>(count, threads); t < most; ++t) others.emplace_back(work_on);
  } catch (const std::system_error&) {  // the system gives no more threads
  }
  work_on();
  for (std::thread& other : others) other.join();
  if (failed) std::rethrow_exception(failed);
}

}  // namespace caravan
