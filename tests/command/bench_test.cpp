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

  const auto json = nlohmann::json::parse(good({"bench", "moons", "--seconds", "0.01", "--warm", "--json"}).out);
  const auto& moons = json["results"].at(0);
  EXPECT_EQ(moons["name"], "moons");
  EXPECT_GT(json["peak_gflops"], 0.1);
  EXPECT_GE(moons["step_microseconds"]["samples"], 3);
  EXPECT_LE(moons["step_microseconds"]["lower_quartile"], moons["step_microseconds"]["median"]);
  EXPECT_GT(moons["call_microseconds"]["median"], 0);
  EXPECT_GT(moons["of_peak"], 0);
  EXPECT_GT(moons["arena_bytes"], 0);
  const auto again = nlohmann::json::parse(good({"bench", "moons", "--seconds", "0.01", "--warm", "--json"}).out);
  EXPECT_TRUE(again["results"][0]["cold_seconds"].is_null()) << "it was in the cache";
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
