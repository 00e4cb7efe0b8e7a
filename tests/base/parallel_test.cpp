#include "caravan/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace caravan {
namespace {

TEST(InParallel, CallsEachOnce) {
  for (const int threads : {0, 1, 3, 100})
    for (const int64_t count : {0, 1, 2, 50}) {
      std::vector<std::atomic<int>> calls(size_t(count) + 1);
      in_parallel(count, threads, [&](int64_t n) { ++calls.at(size_t(n)); });
      for (int64_t n = 0; n <= count; ++n)
        EXPECT_EQ(calls[size_t(n)], n < count ? 1 : 0) << n << " of " << count << " on " << threads;
    }
}

TEST(InParallel, TheCallerIsOneOfTheThreads) {
  std::set<std::thread::id> ids;
  in_parallel(5, 1, [&](int64_t) { ids.insert(std::this_thread::get_id()); });
  EXPECT_EQ(ids, std::set{std::this_thread::get_id()});
  std::atomic<int> met = 0;
  in_parallel(2, 2, [&](int64_t) {  // each waits for the other, so there are two
    ++met;
    while (met < 2) std::this_thread::yield();
  });
}

TEST(InParallel, NothingIsBegunAfterAFailure) {
  for (const int threads : {1, 4}) {
    constexpr int64_t kEndless = int64_t(1) << 60;
    std::atomic<int64_t> begun = 0;
    auto work = [&](int64_t n) {
      ++begun;
      if (n == 2) throw std::runtime_error("the third failed");
    };
    try {
      in_parallel(kEndless, threads, work);
      ADD_FAILURE() << "it did not fail";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "the third failed");
    }
    if (threads == 1) {
      EXPECT_EQ(begun, 3);
    }
  }
}

}  // namespace
}  // namespace caravan
