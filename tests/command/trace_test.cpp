// --trace: a program from its notation to its values, as JSON.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"

namespace {

using Json = nlohmann::json;

const Json* find_label(const Json& list, const string& key, const string& label) {
  for (const Json& entry : list)
    if (entry.at(key) == label) return &entry;
  ADD_FAILURE() << "no " << key << " " << label << " in " << list.dump(1);
  return nullptr;
}

TEST_F(Command, TheTraceTellsAProgramFromNotationToValues) {
  const auto start = std::chrono::steady_clock::now();
  const Outcome o =
      run({"train", "moons", "--steps", "40", "--quiet", "--json", "--trace", "deep/trace.json", "--pass-off", "fuse"});
  const double took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(o.code, 0) << o.err;
  const string text = content(folder_ + "/deep/trace.json");
  const Json trace = Json::parse(text);
  EXPECT_CONTAINS(text, "\n  \"passes\": [\n    {\n      \"name\": ");  // indented
  EXPECT_EQ(trace.at("device"), "cpu");

  const Json& constraints = trace.at("constraints");
  EXPECT_GT(constraints.at("asked").size(), 20u);
  const Json* w1 = find_label(constraints.at("tensors"), "label", "w1");
  const Json* apply = find_label(constraints.at("tensors"), "what", "w1(x)");
  ASSERT_TRUE(w1 && apply);
  EXPECT_EQ(w1->at("input"), Json({2}));
  EXPECT_EQ(w1->at("output"), Json({16}));
  EXPECT_CONTAINS(w1->at("line").get<string>(), "moons.cpp:");
  int64_t reduced = 0;
  for (const Json& iterator : apply->at("iterators"))
    if (iterator.at("reduced")) reduced = iterator.at("size");
  EXPECT_EQ(reduced, 2);
  EXPECT_TRUE(constraints.at("axes").is_array());

  std::vector<string> passes;
  double all_passes = 0;
  for (const Json& pass : trace.at("passes")) {
    passes.push_back(pass.at("name"));
    all_passes += pass.at("milliseconds").get<double>();
    EXPECT_TRUE(pass.at("changed").is_boolean());
  }
  EXPECT_GT(all_passes, 0.1) << "it takes some milliseconds; it would be less in seconds";
  EXPECT_LT(all_passes, took);
  auto has = [&](const char* name) { return std::find(passes.begin(), passes.end(), name) != passes.end(); };
  EXPECT_TRUE(has("inline_producers") && has("lower") && has("forward_stores"));
  EXPECT_FALSE(has("fuse")) << "it is off";
  EXPECT_GT(trace.at("passes").front().at("accumulations").get<int>(), 10);
  EXPECT_EQ(trace.at("passes").back().at("kernels"), trace.at("kernels").size());
  EXPECT_TRUE(trace.at("compiled").at("from_cache").is_boolean());

  const Outcome kernels = run({"inspect", "moons", "--stage", "kernels", "--pass-off", "fuse"});
  EXPECT_EQ(kernels.last_line().substr(0, kernels.last_line().find("  ")),
            std::to_string(trace.at("kernels").size()) + " kernels");
  for (const Json& kernel : trace.at("kernels")) {
    EXPECT_FALSE(kernel.at("from").empty());
    EXPECT_FALSE(kernel.at("writes").empty());
  }

  const Json* loss = find_label(trace.at("values"), "kind", "observed");
  const Json* state = find_label(trace.at("values"), "label", "w2");
  ASSERT_TRUE(loss && state);
  EXPECT_EQ(loss->at("label"), "loss");
  EXPECT_EQ(loss->at("nan"), 0);
  EXPECT_EQ(loss->at("first").size(), 1u);
  EXPECT_EQ(state->at("shape"), "16->16");
  EXPECT_EQ(state->at("first").size(), 8u);
  EXPECT_LT(state->at("min").get<double>(), state->at("mean").get<double>());
  EXPECT_LT(state->at("mean").get<double>(), state->at("max").get<double>());
  find_label(trace.at("values"), "label", "x");  // named by the recipe

  EXPECT_EQ(run({"inspect", "linear", "--trace", "linear.json"}).out, "") << "a file and nothing on the screen";
  EXPECT_EQ(Json::parse(content(folder_ + "/linear.json")).at("values").size(), 6u)
      << "w, b, x, y, the sum and the loss";
  const Outcome folder = run({"inspect", "linear", "--trace", "deep"});
  EXPECT_EQ(folder.code, 2);
  EXPECT_CONTAINS(folder.err, "--trace `deep` is a folder");
}

}  // namespace
