// What `caravan tune` does: it finds faster numbers that change no result.
#include "apps/bench/tuner.h"

#include <gtest/gtest.h>

#include "caravan/backend/cc/device.h"
#include "caravan/base/error.h"

using namespace caravan;

namespace {

std::vector<bench::NamedWorkload> small_workloads() {
  std::vector<bench::NamedWorkload> out;
  for (const char* name : {"gemm-33x40x24", "moons"}) out.push_back({name, bench::find(name)[0].make({})});
  return out;
}

std::vector<Array> results(const bench::Workload& workload, const Tuning& tuning) {
  Context ctx({.seed = 1, .make_device = [&](const ContextOptions& options) {
                 cc::DeviceOptions device;
                 device.seed = options.seed, device.tuning = tuning;
                 return cc::make_device(device);
               }});
  Routine routine = ctx.compile(workload.program);
  std::vector<Array> out;
  for (int64_t step = 0; step < 3; ++step) routine.run(workload.at(step)), out.push_back(routine.read(workload.result));
  return out;
}

TEST(Tuner, FindsNumbersThatChangeNoBit) {
  std::vector<bench::Trial> trials;
  bench::Tuner tuner(small_workloads(), {.seconds = 0.001,
                                         .threads = 1,
                                         .numbers = {"vector_bytes", "most_chunks"},
                                         .tried = [&](const bench::Trial& t) { trials.push_back(t); }});
  const Tuning found = tuner.run({});
  EXPECT_EQ(parse_tuning(to_string(found), "found"), found);
  ASSERT_FALSE(trials.empty());
  Tuning expected;
  for (const bench::Trial& t : trials) {
    if (t.number == "most_chunks") {
      EXPECT_TRUE(t.comparison.rows.empty()) << "nothing here runs on several threads";
      EXPECT_FALSE(t.kept);
    } else if (t.kept) {
      EXPECT_GT(t.comparison.speed, 1 + bench::kLeastGain);
      expected.vector_bytes = t.to;
    }
  }
  EXPECT_EQ(found, expected) << "what was kept, and nothing else";
  EXPECT_EQ(trials[0].from, Tuning().vector_bytes);
  EXPECT_EQ(trials[0].to, 2 * Tuning().vector_bytes);
  EXPECT_FALSE(trials[0].comparison.rows.empty());
  Tuning tried;
  tried.vector_bytes = trials[0].to;
  for (const bench::NamedWorkload& w : small_workloads()) {
    const std::vector<Array> plain = results(w.workload, {});
    for (const Tuning& tuning : {found, tried}) {
      const std::vector<Array> tuned = results(w.workload, tuning);
      for (size_t k = 0; k < plain.size(); ++k) EXPECT_EQ(tuned[k].values(), plain[k].values()) << w.name;
    }
  }
}

// From numbers that are known to be slow it comes back.
TEST(Tuner, LeavesSlowNumbers) {
  Tuning slow;
  slow.block_lanes = 2;  // takes twice the time of 4
  bench::Tuner tuner({{"moons", bench::find("moons")[0].make({})}},
                     {.seconds = 0.02, .threads = 1, .numbers = {"block_lanes"}});
  const std::optional<bench::Comparison> same = tuner.compare(slow, slow);
  ASSERT_TRUE(same);
  EXPECT_TRUE(same->rows.empty());
  EXPECT_EQ(same->speed, 1);
  int64_t found = slow.block_lanes;  // other programs may disturb a measurement, and so there are three
  for (int k = 0; k < 3 && found <= slow.block_lanes; ++k) found = tuner.run(slow).block_lanes;
  EXPECT_GT(found, slow.block_lanes);
}

TEST(Tuner, StopsWithWhatWasFound) {
  bench::Tuner tuner(small_workloads(), {.stop = [] { return true; }});
  Tuning start;
  start.block_rows = 2;
  EXPECT_EQ(tuner.run(start), start);
  EXPECT_FALSE(tuner.compare(start, {}));
}

TEST(Tuner, RefusesNumbersThatThereAreNot) {
  try {
    bench::Tuner(small_workloads(), {.numbers = {"block_row"}});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("there is no number `block_row`; did you mean `block_rows`?"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(bench::Tuner(small_workloads(), {.numbers = {"sum_lanes"}}), ConfigError) << "it changes results";
}

}  // namespace
