// Batches that a thread prepares.
#include "caravan/data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "data/counted.h"

namespace caravan::data {
namespace {

using std::string;
using Values = std::vector<double>;

Arrays numbered(int64_t n) {
  Array x(parse_shape(std::to_string(n) + "|2")), y(parse_shape(std::to_string(n) + "|"), DType::i64);
  for (int64_t i = 0; i < n; ++i) x.set(2 * i, double(i)), x.set(2 * i + 1, double(-i)), y.set(i, double(i));
  return {x, y};
}

std::vector<Arrays> take(Loader& loader, int64_t n) {
  std::vector<Arrays> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(loader.next());
  return out;
}

TEST(Loader, EveryEpochHasEveryExampleInAnotherOrder) {
  Loader loader(numbered(10), {.batch = 4, .seed = 3});
  EXPECT_EQ(loader.steps_per_epoch(), 3);
  std::vector<Values> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    Values order;
    for (int step = 0; step < 3; ++step) {
      EXPECT_EQ(loader.step(), 3 * epoch + step);
      const Arrays batch = loader.next();
      EXPECT_EQ(to_string(batch[0].shape()), "4|2");
      for (int64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(batch[0].at({i, 0}), batch[1].at(i));
        order.push_back(batch[1].at(i));
      }
    }
    EXPECT_EQ(std::set<double>(order.begin(), order.begin() + 10).size(), 10u);
    EXPECT_EQ(order[10], order[0]) << "completed by the epoch's first";
    EXPECT_EQ(order[11], order[1]);
    orders.push_back(order);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(Loader, TheOrderIsAFunctionOfSeedAndStep) {
  Loader loader(numbered(23), {.batch = 5, .seed = 3});
  const std::vector<Arrays> all = take(loader, 20);
  for (int64_t start : {0, 1, 4, 5, 12}) {
    Loader resumed(numbered(23), {.batch = 5, .seed = 3, .start_step = start, .ahead = 1 + start});
    EXPECT_EQ(resumed.step(), start);
    for (int64_t step = start; step < 20; ++step)
      EXPECT_TRUE(same(resumed.next(), all[size_t(step)])) << start << ' ' << step;
  }
  Loader other(numbered(23), {.batch = 5, .seed = 4});
  EXPECT_FALSE(same(other.next(), all[0]));
  Loader plain(numbered(3), {.batch = 2, .shuffle = false});
  EXPECT_EQ(plain.next()[1].values(), (Values{0, 1}));
  EXPECT_EQ(plain.next()[1].values(), (Values{2, 0}));
  EXPECT_EQ(plain.next()[1].values(), (Values{0, 1}));
  Loader large(numbered(2), {.batch = 5, .shuffle = false});
  EXPECT_EQ(large.next()[1].values(), (Values{0, 1, 0, 1, 0}));
  Loader endless(numbered(2), {.batch = INT64_MAX});
  EXPECT_EQ(endless.steps_per_epoch(), 1);
  EXPECT_THROW(endless.next(), std::exception) << "no machine has the memory";
}

TEST(Loader, WhatTheThreadThrowsReachesTheCallerAtItsStep) {
  Loader loader(numbered(10), {.batch = 2, .shuffle = false, .change = [](Arrays batch, int64_t step) -> Arrays {
                                 if (step == 3) throw StateError("the fourth");
                                 batch[1] = batch[1].map([](double v) { return v + 100; });
                                 return batch;
                               }});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(loader.next()[1].at(0), 100 + 2 * i);
  EXPECT_THROW(loader.next(), StateError);
  EXPECT_THROW(loader.next(), StateError) << "and again, instead of waiting for ever";
}

TEST(Loader, EndsWhateverItIsDoing) {
  for (int round = 0; round < 200; ++round) {
    Loader loader(numbered(50), {.batch = 3, .seed = uint64_t(round), .ahead = 1 + round % 3});
    for (int i = 0; i < round % 5; ++i) loader.next();
  }
  Loader moved(Loader(numbered(4), {.batch = 2, .shuffle = false}));
  EXPECT_EQ(moved.next()[1].values(), (Values{0, 1}));
  moved = Loader(numbered(4), {.batch = 1, .shuffle = false});
  EXPECT_EQ(moved.next()[1].values(), (Values{0}));
}

TEST(Loader, PreparesNoMoreThanItMay) {
  std::atomic<int64_t> made = 0;
  Loader loader(numbered(50), {.batch = 1, .ahead = 3, .change = [&](Arrays batch, int64_t) {
                                 ++made;
                                 return batch;
                               }});
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(made, 1 + 3 + 1) << "taken, waiting, in hand";
}

TEST(Loader, WritingToAnArrayThatIsLoadedChangesNoBatch) {
  Arrays arrays = numbered(10);
  Loader loader(arrays, {.batch = 10, .shuffle = false});
  for (int round = 0; round < 20; ++round) {
    arrays[1].set(0, 77);
    EXPECT_EQ(loader.next()[1].at(0), 0);
  }
}

TEST(Loader, RefusesWhatCannotBe) {
  EXPECT_THROW(Loader(numbered(10), {.batch = 0}), ConfigError);
  EXPECT_THROW(Loader(numbered(10), {.start_step = -1}), ConfigError);
  EXPECT_THROW(Loader(numbered(10), {.ahead = 0}), ConfigError);
  EXPECT_THROW(Loader(numbered(0), {}), ShapeError);
  EXPECT_THROW(Loader({}, {}), ShapeError);
  EXPECT_THROW(Loader({counted("3|"), counted("4|")}, {}), ShapeError);
}

}  // namespace
}  // namespace caravan::data
