// caravan bench: a table, JSON, records, and refusals.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "command.h"

namespace {

TEST_F(Command, BenchPrintsATableOrJson) {
  const Outcome table = good({"bench", "moons", "gemm-32x200x28-nt", "--seconds", "0.01", "--threads", "1"});
  for (const char* phrase : {", 1 thread, at best ", "GFLOP/s", "\nmoons  ", "\ngemm-32x200x28-nt  "})
    EXPECT_CONTAINS(table.out, phrase);
  for (size_t at = 0, end = 0; (end = table.out.find('\n', at)) != string::npos; at = end + 1)
    EXPECT_LE(end - at, 80u) << table.out.substr(at, end - at);

  const Arguments as_json = {"bench", "moons", "gemm-32x200x28", "--seconds", "0.01", "--warm", "--json"};
  std::istringstream lines(good(as_json).out);
  string line;
  for (const char* name : {"moons", "gemm-32x200x28"}) {
    ASSERT_TRUE(std::getline(lines, line));
    const auto result = nlohmann::json::parse(line);
    EXPECT_EQ(result["name"], name);
    EXPECT_EQ(result["device"], "cpu");
    EXPECT_GE(result["threads"], 1);
    EXPECT_GE(result["samples"], 3);
    EXPECT_GT(result["min_us"], 0);
    EXPECT_LE(result["min_us"], result["lower_quartile_us"]);
    EXPECT_LE(result["lower_quartile_us"], result["median_us"]);
    EXPECT_LE(result["median_us"], result["max_us"]);
    EXPECT_LE(result["call_lower_quartile_us"], result["call_median_us"]);
    EXPECT_LE(result["call_median_us"], result["call_upper_quartile_us"]);
    for (const char* positive :
         {"call_lower_quartile_us", "peak_gflops", "gflops", "share_of_peak", "compile_cached_ms", "arena_bytes"})
      EXPECT_GT(result[positive], 0) << positive;
  }
  EXPECT_FALSE(std::getline(lines, line));
  std::istringstream again(good(as_json).out);
  std::getline(again, line);
  EXPECT_TRUE(nlohmann::json::parse(line)["compile_cold_ms"].is_null()) << "it was in the cache";
}

TEST_F(Command, BenchListsWhatItKnows) {
  EXPECT_CONTAINS(good({"bench", "--list"}).out, "\nmoons                2-16-16-1 ReLU, hinge loss");
  EXPECT_EQ(nlohmann::json::parse(good({"bench", "names", "--list", "--json"}).out).size(), 5u);
}

TEST_F(Command, BenchProfilesKernels) {
  EXPECT_CONTAINS(good({"bench", "moons", "--profile"}).out, "GFLOP/s    GB/s  of peak  kernel");
  const auto json = nlohmann::json::parse(good({"bench", "moons", "--profile", "--json"}).out);
  EXPECT_EQ(json[0]["program"], "moons");
  EXPECT_FALSE(json[0]["kernels"].empty());
}

TEST_F(Command, BenchShowsTheStepThatRunsWithFlags) {
  const Arguments show = {"bench", "gemm-128x784x100", "--stage", "c", "--compiler-flag=-mno-avx"};
  const std::string text = good(show).out;
  const std::string kernels = text.substr(text.find("static void k0_"));
  EXPECT_CONTAINS(kernels, "caravan_f32x4");
  EXPECT_EQ(kernels.find("caravan_f32x8"), kernels.npos);
}

TEST_F(Command, BenchWritesRecords) {
  EXPECT_EQ(good({"bench", "moons", "--write", "records"}).out, "");
  EXPECT_CONTAINS(content(folder_ + "/records/moons.safetensors"), "param.mlp.0.weight");
}

TEST_F(Command, BenchShowsStepsForAGpuThatIsNotHere) {
  const std::string kernels = good({"bench", "gpt-char-b64", "--device", "cuda", "--stage", "kernels"}).out;
  EXPECT_CONTAINS(kernels, "library product of 16384 rows, 1152 columns, 384 terms");
  EXPECT_CONTAINS(good({"bench", "moons", "--stage", "cuda", "--device", "cuda"}).out, "__global__ void");
  EXPECT_CONTAINS(good({"bench", "moons", "--stage", "memory"}).out, "live at once");
  EXPECT_EQ(run({"bench", "moons", "--stage", "memry"}).code, 2);
  const Outcome o = run({"bench", "gpt2-124m"});
  EXPECT_EQ(o.code, 2);
  EXPECT_CONTAINS(o.err, "the workload `gpt2-124m` is for a GPU, with --device cuda: a step of it takes 28.0 TFLOP");
}

TEST_F(Command, BenchRefusesWhatItDoesNotKnow) {
  const Outcome o = run({"bench", "mons"});
  EXPECT_EQ(o.code, 2);
  EXPECT_CONTAINS(o.err, "there is no benchmark `mons`; did you mean `moons`?");
  EXPECT_EQ(run({"bench", "moons", "--seconds", "0"}).code, 2);
}

}  // namespace
