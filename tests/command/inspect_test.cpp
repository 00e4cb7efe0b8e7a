// caravan inspect and profile, and --dump: each stage as text, kernels with what they cost.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "command.h"

namespace {

TEST_F(Command, InspectShowsEachStage) {
  struct {
    Arguments arguments;
    string phrase;
  } rows[] = {
      {{"moons"}, "relu <- ["},
      {{"moons", "--stage", "graph"}, "w1(x"},
      {{"moons", "--stage", "graph", "--dot"}, "digraph"},
      {{"moons", "--stage", "shapes"}, "2->16"},
      {{"moons", "--stage", "constraints"}, "w1"},
      {{"moons", "--stage", "assignments"}, "w1 := "},
      {{"linear", "--stage", "graph"}, "square <- ["},
      {{"linear", "--stage", "shapes"}, "4|"},
      {{"moons", "--stage", "shapes", "--batch", "20"}, "40,20|1 "},
      {{"linear", "--stage", "assignments"}, "for b0 < 4"},
  };
  for (const auto& [arguments, phrase] : rows) {
    Arguments all = {"inspect"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 0) << joined(all) << ": " << o.err;
    EXPECT_CONTAINS(o.out, phrase);
  }
}

TEST_F(Command, InspectShowsTheWayToCodeForEveryRecipe) {
  for (const char* recipe : {"linear", "moons", "multiply-small"}) {
    struct {
      const char* stage;
      Arguments phrases;
    } rows[] = {
        {"loops", {"kernel sum", "for b0 < "}},
        {"optimized", {"kernel ", " = "}},
        {"c", {"void caravan_run(", "static void k0_", "for (int64_t "}},
        {"memory", {"offset", "loss ", "..end", "live at once ", "peak ", "times that", "state ", "data "}},
        {"kernels", {"bytes read", "flops", "  loops ", "  from  ", " kernels "}},
    };
    for (const auto& [stage, phrases] : rows) {
      const Outcome o = run({"inspect", recipe, "--stage", stage});
      EXPECT_EQ(o.code, 0) << recipe << ' ' << stage << ": " << o.err;
      for (const string& phrase : phrases) EXPECT_CONTAINS(o.out, phrase);
    }
  }
}

// The number that follows the name at the beginning of a line of a table.
double number_after(const string& table, const string& name) {
  const size_t at = table.find("\n" + name + " ");
  return at == string::npos ? -1 : std::stod(table.substr(at + 1 + name.size()));
}
TEST_F(Command, MemoryIsAlmostTheLeastPossible) {
  for (const string recipe :
       {"linear", "moons", "multiply-small", "multiply-large", "circle", "mnist-mlp", "mnist-conv", "mnist-autoencoder",
        "names-bigram", "names-mlp", "names-mlp-bn", "names-wavenet", "names-transformer", "shakespeare-gpt"}) {
    const Outcome o = run({"inspect", recipe, "--stage", "memory"});
    ASSERT_EQ(o.code, 0) << recipe << o.err;
    const double live = number_after(o.out, "live at once"), peak = number_after(o.out, "peak");
    EXPECT_GT(live, 0) << recipe;
    EXPECT_LE(peak, 1.2 * live) << recipe;
  }
}
TEST_F(Command, InspectShowsAStepWithinAMemoryLimit) {
  const Arguments memory = {"inspect", "names-transformer", "--stage", "memory"};
  auto with_limit = [&](const string& limit) {
    Arguments out = memory;
    out.insert(out.end(), {"--memory-limit", limit});
    return run(out);
  };
  const string unlimited = run(memory).out;
  const double all = number_after(unlimited, "peak");
  const Outcome less = with_limit(std::to_string(int64_t(0.5 * all)));
  EXPECT_EQ(less.code, 0) << less.err;
  EXPECT_LE(number_after(less.out, "peak"), 0.5 * all);
  EXPECT_CONTAINS(less.out, ".again ");
  EXPECT_EQ(with_limit("1GB").out, unlimited);
  const Outcome none = run({"inspect", "moons", "--stage", "memory", "--memory-limit", "1kB"});
  EXPECT_EQ(none.code, 2) << none.out;
  EXPECT_CONTAINS(none.err, "more than the limit of 1000 bytes");
  EXPECT_EQ(with_limit("much").code, 2);
}

TEST_F(Command, InspectShowsTheStepOfAnotherOptimizerSizeOrPrecision) {
  auto shown = [&](const Arguments& with) {
    Arguments all = {"inspect", "shakespeare-gpt", "--stage", "assignments", "--batch", "2"};
    all.insert(all.end(), with.begin(), with.end());
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.out;
  };
  const string usual = shown({});
  EXPECT_CONTAINS(usual, "tok.weight: 50|128");
  EXPECT_CONTAINS(usual, ".adamw.mean");
  EXPECT_CONTAINS(shown({"--size", "large"}), "tok.weight: 50|384");
  EXPECT_CONTAINS(shown({"--optimizer", "lion"}), ".lion.");
  EXPECT_EQ(usual.find(" bf16"), string::npos);
  EXPECT_CONTAINS(shown({"--precision", "bf16"}), " bf16");
}

TEST_F(Command, InspectCountsBytesAndOperations) {
  const string out = run({"inspect", "moons", "--stage", "kernels", "--pass-off", "fuse"}).out;
  // w2(relu(..)): 16 x 16 weights and 10 x 16 values in, 10 x 16 out, a multiplication and an addition for each of 10 x
  // 16 x 16.
  const size_t at = out.find("apply w2 ");
  ASSERT_NE(at, string::npos) << out;
  std::istringstream row(out.substr(at));
  string name;
  int64_t read = 0, written = 0, flops = 0;
  row >> name >> name >> read >> written >> flops;
  EXPECT_EQ(read, 4 * (16 * 16 + 10 * 16));
  EXPECT_EQ(written, 4 * 10 * 16);
  EXPECT_EQ(flops, 2 * 10 * 16 * 16);
}

TEST_F(Command, InspectLeavesPassesOutAndLogsThem) {
  auto kernels = [&](const Arguments& off) {
    Arguments all = {"inspect", "moons", "--stage", "optimized"};
    for (const string& name : off) all.insert(all.end(), {"--pass-off", name});
    const string out = "\n" + run(all).out;
    size_t n = 0;
    for (size_t at = out.find("\nkernel "); at != string::npos; at = out.find("\nkernel ", at + 1)) ++n;
    return n;
  };
  EXPECT_LT(kernels({}), kernels({"fuse"}));
  EXPECT_LT(kernels({"fuse"}), kernels({"fuse", "inline_producers"}));

  const string quiet = run({"inspect", "moons", "--stage", "optimized"}).err;
  const string log = run({"inspect", "moons", "--stage", "optimized", "--log", "1"}).err;
  EXPECT_EQ(quiet, "");
  EXPECT_CONTAINS(log, "pass fuse ");
  EXPECT_CONTAINS(log, " ms");
  EXPECT_CONTAINS(log, "(unchanged)");
  EXPECT_EQ(run({"inspect", "moons", "--log", "1", "--pass-off", "fuse"}).err.find("pass fuse "), string::npos);
  EXPECT_CONTAINS(run({"train", "linear", "--steps", "1", "--quiet", "--log", "1"}).err, "pass fuse ");
}

TEST_F(Command, InspectShowsTheVeryTextThatRan) {
  const Outcome trained = run({"train", "moons", "--quiet", "--steps", "1"}, {"CARAVAN_CACHE=" + folder_ + "/cache"});
  EXPECT_EQ(trained.code, 0) << trained.err;
  const string shown = run({"inspect", "moons", "--stage", "c"}, {"CARAVAN_CACHE=" + folder_ + "/cache"}).out;
  ASSERT_EQ(shown.substr(0, 3), "/* ");
  const size_t end = shown.find(" */\n");
  const string name = shown.substr(3, end - 3);
  EXPECT_EQ(content(folder_ + "/cache/" + name), shown.substr(end + 4)) << name;
}

TEST_F(Command, InspectListsProductsAndTheirShareOfTheTime) {
  const Arguments kernels = {"inspect", "mnist-mlp", "--stage", "kernels", "--threads", "1", "--batch", "128"};
  EXPECT_CONTAINS(run(kernels).out, "  product of 128 rows, 512 columns, 784 terms: 102760448 flops, in tiles of ");
  for (const Arguments& measured : {Arguments{"inspect", "moons", "--stage", "kernels", "--measure"},
                                    Arguments{"bench", "moons", "--stage", "kernels", "--measure"}}) {
    const Outcome o = run(measured);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_CONTAINS(o.out, " columns, 16 terms: ");
    EXPECT_CONTAINS(o.out, " flops, in loops\n");
    EXPECT_CONTAINS(o.out.substr(0, o.out.find('\n')), "   share");
    double share = 0;
    std::istringstream lines(o.out);
    for (string line; std::getline(lines, line);)
      if (line.ends_with('%') && line.find(" kernels ") == string::npos)
        share += std::stod(line.substr(line.rfind(' ')));
    EXPECT_NEAR(share, 100, 2) << o.out;
  }
}

TEST_F(Command, ProfileSaysWhereTheTimeOfAStepGoes) {
  const Outcome o = run({"profile", "moons", "--steps", "50", "--top", "2", "--plot", folder_ + "/profile.svg"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, "moons on ");
  EXPECT_CONTAINS(o.out, "GFLOP/s");
  EXPECT_CONTAINS(o.out, "moons.cpp:");
  EXPECT_CONTAINS(o.out, "other kernels");
  EXPECT_CONTAINS(content(folder_ + "/profile.svg"), "</svg>");
  const auto json = nlohmann::json::parse(run({"profile", "linear", "--steps", "50", "--json"}).out);
  double share = 0;
  for (const auto& kernel : json["kernels"]) share += double(kernel["share"]);
  EXPECT_NEAR(share, 1, 1e-6);
  EXPECT_GT(json["step_microseconds"], 0);
  EXPECT_EQ(run({"profile", "abacus"}).code, 2);
  EXPECT_EQ(run({"profile", "moons", "--device", "interp"}).code, 3);
}

TEST_F(Command, DumpWritesEveryStage) {
  const Arguments files = {"graph.txt", "graph.dot",     "shapes.txt", "constraints.txt", "assignments.txt",
                           "loops.txt", "optimized.txt", "memory.txt", "step.c",          "kernels.txt"};
  for (const Arguments& command : {Arguments{"inspect", "moons"}, Arguments{"train", "moons", "--quiet"}}) {
    const string to = folder_ + "/" + command[0] + "/stages";
    Arguments all = command;
    all.insert(all.end(), {"--dump", to});
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(o.out, "");
    for (const string& file : files) EXPECT_GT(content(to + "/" + file).size(), 100u) << file;
    EXPECT_EQ(content(to + "/step.c"), run({"inspect", "moons", "--stage", "c"}).out);
    EXPECT_EQ(content(to + "/memory.txt"), run({"inspect", "moons", "--stage", "memory"}).out);
    EXPECT_CONTAINS(content(to + "/graph.dot"), "digraph");
  }
  const string debugged = folder_ + "/debugged";
  EXPECT_EQ(run({"train", "moons", "--quiet", "--debug-kernels", "--dump", debugged}).code, 0);
  for (const string& step : {folder_ + "/train/stages/step.c", debugged + "/step.c"}) {  // it names what the cache has
    const string text = content(step), name = text.substr(3, text.find(" */") - 3);
    EXPECT_EQ("/* " + name + " */\n" + content(cache_ + "/" + name), text);
  }
  EXPECT_NE(content(debugged + "/step.c"), content(folder_ + "/train/stages/step.c")) << "the flags are others";
  EXPECT_EQ(run({"train", "moons", "--device", "abacus", "--dump", folder_ + "/none"}).code, 2);
  EXPECT_FALSE(exists(folder_ + "/none"));
}

TEST_F(Command, AStepIsShownForTheDeviceThatIsNamed) {
  auto shown = [&](Arguments more) {
    more.insert(more.begin(), {"inspect", "moons", "--stage"});
    return run(more);
  };
  const string cuda = shown({"cuda"}).out;
  EXPECT_CONTAINS(cuda, "caravan_steps(");  // it runs in one block of threads
  EXPECT_EQ(shown({"cuda", "--device", "cuda"}).out, cuda);
  EXPECT_NE(shown({"cuda", "--pass-off", "fuse"}).out, cuda);
  EXPECT_CONTAINS(shown({"kernels", "--device", "cuda"}).out, " threads, with all other kernels");
  EXPECT_EQ(shown({"kernels"}).out.find("  runs  "), string::npos);
  const Outcome refused = shown({"c", "--device", "cuda"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err, "caravan: the code of a GPU is CUDA C++, not C: use --stage cuda, or --device cpu.\n");
  EXPECT_CONTAINS(shown({"cuda", "--device", "cpu"}).err, "the code of the processor is C, not CUDA C++");
  const string to = folder_ + "/stages";
  EXPECT_EQ(run({"inspect", "moons", "--device", "cuda", "--dump", to}).code, 0);
  EXPECT_EQ(content(to + "/step.cu"), cuda);
  EXPECT_FALSE(exists(to + "/step.c"));
}

}  // namespace
