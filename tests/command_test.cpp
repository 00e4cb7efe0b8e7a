// The command as a user meets it: arguments in, text, JSON and an exit code out.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef CARAVAN_COMMAND
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "command.h"
#include "random_fixture.h"

namespace {

TEST_F(Command, EinsumPrintsShapesIteratorsAndTheLoop) {
  const Outcome o = run({"einsum", "ij;jk=>ik", "3,4", "4,5"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, "result   3,5");
  EXPECT_CONTAINS(o.out, "4  reduced");
  EXPECT_CONTAINS(o.out, "result[i, k] += A[i, j] * B[j, k]   for i < 3, k < 5, j < 4");
}

TEST_F(Command, EinsumJsonIsOneLine) {
  const Outcome o = run({"einsum", "ij;jk=>ik", "3,4", "4,5", "--json"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(
      o.out,
      R"({"spec":"ij;jk=>ik","op":"add","operands":["3,4","4,5"],"result":"3,5","iterators":[)"
      R"({"name":"i","extent":3,"reduced":false},{"name":"k","extent":5,"reduced":false},{"name":"j","extent":4,"reduced":true}]})"
      "\n");
  EXPECT_EQ(o.err, "");
}

TEST_F(Command, EinsumTakesEveryKindOfSpec) {
  struct {
    Arguments arguments;
    string result;
  } rows[] = {
      {{"... s | h d; ... t | h d => ... s | t -> h", "2,8|4,64", "2,8|4,64"}, "2,8|8->4"},
      {{"... | 2*o=+k, ic; k, ic -> oc => ... | o, oc", "8|32,3", "5,3->16"}, "8|16,16"},
      {{"2*o<1+k => o", "9", "--size", "k=3", "--op", "max"}, "5"},
      {{"--size", "k=3", "--op", "min", "2*o+k => o", "9"}, "4"},
      {{"x&y => x, y", "12", "--size", "y=4"}, "3,4"},
      {{"o; k => s*o+d*k", "4", "3", "--size", "s=2", "--size", "d=1"}, "9"},
      {{"a; b => a^b", "3", "2", "--op", "concat"}, "5"},
      {{"r, a; r, b; r, c; r, d => r, a^b^c^d", "2,1", "2,2", "2,3", "2,4", "--op", "concat"}, "2,10"},
      {{"3^rest => rest", "8"}, "5"},
      {{"-i=>i", "6"}, "6"},
      {{"->i=>i", "->6"}, "6"},
      {{"i;j;k=>ijk", "1", "2", "3"}, "1,2,3"},
      {{"j => i", "6", "--size", "i=6", "--where", "j <= i"}, "6"},
      {{"ij=>", "2,3"}, ""},
      {{"=>i", "", "--size", "i=3"}, "3"},
  };
  for (const auto& [arguments, result] : rows) {
    Arguments all = {"einsum", "--json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 0) << joined(all) << ": " << o.err;
    EXPECT_CONTAINS(o.out, "\"result\":\"" + result + "\"");
  }
}

TEST_F(Command, EinsumListsTheIteratorsOfAllParts) {
  const Outcome o = run({"einsum", "r, a; r, b => r, a^b", "2,3", "2,4", "--op", "concat", "--json"});
  EXPECT_CONTAINS(
      o.out,
      R"("iterators":[{"name":"r","extent":2,"reduced":false},{"name":"a","extent":3,"reduced":false},{"name":"b","extent":4,"reduced":false}])");
}

TEST_F(Command, RefusesWrongInputWithCodeTwoAndOneClearSentence) {
  struct {
    Arguments arguments;
    string phrase;
  } rows[] = {
      {{"einsum", "ij;jk=>ik", "3,4", "5,6"}, "axis `j` is 4 for output axis 2 of `A`, but 5 for output axis 1 of `B`"},
      {{"einsum", "ij;jk=>ik", "3,4"}, "has 2 shapes before `=>`"},
      {{"einsum", "i=>..", "3"}, "  i=>..\n       ^"},
      {{"einsum", "ij", "3"}, "^"},
      {{"einsum", "i=>i", "3", "--size", "q=3"}, "`q`"},
      {{"einsum", "i=>i", "3", "--size", "i=4"}, "axis `i` is 3"},
      {{"einsum", "i=>i", "3", "--size", "i"}, "NAME=N"},
      {{"einsum", "i=>i", "3", "--size", "i=x"}, "NAME=N"},
      {{"einsum", "i=>i", "3,,4"}, "3,,4"},
      {{"einsum", "i=>i", "three"}, "three"},
      {{"einsum", "i=>i", "-3"}, "-3"},
      {{"einsum", "i=>i", "0"}, "size 0"},
      {{"einsum", "i=>i", "3", "--op", "median"}, "no --op `median`"},
      {{"einsum", "i=>ij", "3"}, "--size j=N"},
      {{"einsum", "i5=>i", "3,4"}, "fixed index 5"},
      {{"einsum", "x&y=>x,y", "12", "--size", "y=5"}, "5 does not divide 12"},
      {{"einsum", "ii=>i", "3,4"}, "axis `i` is 3"},
      {{"einsum", "i;j;k;l=>ijkl", "1", "2", "3", "4"}, "one to three operands"},
      {{"einsum", "i=>i", "3", "--where", "i <"}, "condition"},
      {{"einsum"}, "SPEC is required"},
      {{"einsum", "i=>i", "3", "--shape"}, "no option `--shape`"},
      {{"learn"}, "no command `learn`; there are: train, eval"},
      {{"trian", "moons"}, "no command `trian`; did you mean `train`? There are: train, eval"},
      {{"bench", "--help"}, "no command `bench`; there are: train"},
      {{"help", "isnpect"}, "no command `isnpect`; did you mean `inspect`?"},
      {{"help", "train", "mons"}, "no recipe `mons`; did you mean `moons`?"},
      {{"train", "mons"}, "no recipe `mons`; did you mean `moons`? There are: linear, moons"},
      {{"train", "moons", "--epoch", "3"}, "`caravan train moons` has no option `--epoch`; did you mean `--epochs`?"},
      {{"inspect", "moons", "--stage", "shape"}, "no stage `shape`; did you mean `shapes`?"},
      {{"ops", "sigmod"}, "no op or accumulator `sigmod`; did you mean `sigmoid`?"},
      {{"train", "moons", "--optimizer", "addam"}, "no optimizer `addam`; did you mean `adam`?"},
      {{"completion", "tcsh"}, "no completion for `tcsh`"},
      {{"new", "../up"}, "`../up` cannot name a project"},
      {{"new", "test"}, "`test` is a target of CMake's own"},
      {{"new", "one", "--recipe", "mons"}, "no project `mons`; did you mean `moons`?"},
      {{"summary", "venus"}, "no recipe `venus`"},
      {{"serve", "--port", "80x"}, "--port: `80x` is not a whole number from 0 to 65535"},
      {{"--frobnicate"}, "no option `--frobnicate`"},
      {{"gradcheck", "nosuchcase"}, "no gradient check matches `nosuchcase`"},
      {{"ops", "nosuchop"}, "no op or accumulator `nosuchop`"},
      {{"inspect", "moons", "--stage", "cuda"}, "this build has no stage `cuda`"},
      {{"inspect", "moons", "--stage", "c", "--pass-off", "magic"},
       "no pass `magic`; there are: solve_writes, join_parts, simplify, merge_equal"},
      {{"inspect", "moons", "--dump", "/dev/null/stages"}, "--dump `/dev/null/stages` is not a folder"},
      {{"inspect", "moons", "--dump", "/dev/null"}, "--dump `/dev/null` is not a folder"},
      {{"inspect", "moons", "--stage", "soup"}, "no stage `soup`; there are: graph, shapes"},
      {{"inspect", "moons", "--stage", "shapes", "--dot"}, "--dot draws the graph"},
      {{"inspect", "venus"}, "no recipe `venus`; there are: linear, moons"},
      {{"train"}, "needs a recipe: linear, moons"},
      {{"train", "venus"}, "no recipe `venus`; there are: linear, moons"},
      {{"train", "moons", "--dump", "/dev/null/stages"}, "--dump `/dev/null/stages` is not a folder"},
      {{"train", "moons", "--plot", "/dev/null/pictures"}, "--plot `/dev/null/pictures` is not a folder"},
      {{"train", "moons", "--pass-off", "magic"}, "no pass `magic`"},
      {{"train", "moons", "--pass-off", "magic", "--device", "interp"}, "no pass `magic`"},
      {{"train", "moons", "--debug-kernels", "--device", "interp"}, "--debug-kernels is for compiled code"},
      {{"train", "moons", "--threads", "0"}, "threads (from command line) is `0`"},
      {{"train", "moons", "--epochs", "0"}, "--epochs is 0"},
      {{"train", "moons", "--steps", "-5"}, "--steps is -5"},
      {{"train", "moons", "--epochs", "few"}, "--epochs: `few` is not a whole number"},
      {{"train", "moons", "--lr", "few"}, "--lr: `few` is not a number"},
      {{"train", "moons", "--epochs", "1", "--steps", "2"}, "excludes"},
      {{"train", "moons", "--batch", "7"}, "--batch 7 does not divide the 800 points"},
      {{"train", "moons", "--lr", "0"}, "--lr is 0"},
      {{"train", "moons", "--seed", "-1"}, "seed (from command line) is `-1`"},
      {{"train", "moons", "--device", "abacus"}, "device kind `abacus`"},
      {{"train", "moons", "slowly"}, "does not expect `slowly`"},
      {{"doctor", "--log", "much"}, "log (from command line) is `much`"},
  };
  for (const auto& [arguments, phrase] : rows) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << joined(arguments) << ": " << o.err;
    EXPECT_NE(o.err.find(phrase), string::npos) << joined(arguments) << ": " << o.err;
    EXPECT_EQ(o.err.find("caravan: "), 0u) << o.err;
    EXPECT_EQ(o.err.find("unknown line"), string::npos) << "a command line has no lines: " << o.err;
    EXPECT_EQ(o.out, "") << joined(arguments);
  }
}

TEST_F(Command, GradcheckPasses) {
  const Outcome o = run({"gradcheck", "--json"});
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_EQ(o.out.find('\n'), o.out.size() - 1) << "JSON and nothing else";
  EXPECT_GT(number(o.out, "checked"), 250);
  EXPECT_EQ(field(o.out, "failed"), "0");
  EXPECT_LT(number(o.out, "worst"), 1e-6);
}

TEST_F(Command, GradcheckTakesFilters) {
  const Outcome o = run({"gradcheck", "op pow", "diagonals: read"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, "op pow");
  EXPECT_CONTAINS(o.out, "diagonals");
  EXPECT_CONTAINS(o.last_line(), "checked 6, failed 0, worst ");
}

TEST_F(Command, OpsShowsTheTableAndARow) {
  EXPECT_CONTAINS(run({"ops"}).out, "gelu_tanh");
  EXPECT_CONTAINS(run({"ops"}).out, "argmax=");
  const Outcome one = run({"ops", "max"});
  EXPECT_EQ(one.code, 0);
  EXPECT_CONTAINS(one.out, "op max: y = max(a, b)\n");
  EXPECT_CONTAINS(one.out, "  gradient     da = where(a >= b, g, 0)\n               db = where(a >= b, 0, g)\n");
  EXPECT_CONTAINS(one.out, "accumulator max: y max= ..\n");
  EXPECT_EQ(field(run({"ops", "exp", "--json"}).out, "c"), "\"exp(a)\"");
  const Outcome all = run({"ops", "--json"});
  EXPECT_EQ(all.out.find('\n'), all.out.size() - 1);
  EXPECT_CONTAINS(all.out, R"("name":"clamp","arity":3)");
}

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
        {"memory", {"offset", "loss ", "..end", "peak ", "state ", "data "}},
        {"kernels", {"bytes read", "flops", "  loops ", "  from  ", " kernels "}},
    };
    for (const auto& [stage, phrases] : rows) {
      const Outcome o = run({"inspect", recipe, "--stage", stage});
      EXPECT_EQ(o.code, 0) << recipe << ' ' << stage << ": " << o.err;
      for (const string& phrase : phrases) EXPECT_CONTAINS(o.out, phrase);
    }
  }
}

TEST_F(Command, InspectCountsBytesAndOperations) {
  const string out = run({"inspect", "moons", "--stage", "kernels", "--pass-off", "fuse"}).out;
  // w2(relu(..)): 16 x 16 weights and 10 x 16 values in, 10 x 16 out, a multiplication and an addition for each of 10 x
  // 16 x 16.
  const size_t at = out.find("apply.1 ");
  ASSERT_NE(at, string::npos) << out;
  std::istringstream row(out.substr(at));
  string name;
  int64_t read = 0, written = 0, flops = 0;
  row >> name >> read >> written >> flops;
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
  EXPECT_EQ(run({"train", "moons", "--device", "abacus", "--dump", folder_ + "/none"}).code, 2);
  EXPECT_FALSE(exists(folder_ + "/none"));
}

TEST_F(Command, TrainLinearFindsTheLineAndShowsTheWay) {
  const Outcome text = run({"train", "linear", "--device", "interp"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_CONTAINS(text.out, "square <- [");  // the graph with values
  EXPECT_CONTAINS(text.out, "grad=");
  EXPECT_CONTAINS(text.out, "d loss / d ");     // the backward pass
  EXPECT_CONTAINS(text.out, "epoch 20 of 20");  // plain lines in a pipe
  EXPECT_CONTAINS(text.out, "Loss on a logarithmic scale");
  EXPECT_CONTAINS(text.out, "learned     true");
  const Outcome o = run({"train", "linear", "--device", "interp", "--json"});
  EXPECT_NEAR(number(o.last_line(), "w"), number(o.last_line(), "true_w"), 0.05);
  EXPECT_NEAR(number(o.last_line(), "b"), number(o.last_line(), "true_b"), 0.05);
  EXPECT_EQ(field(o.last_line(), "recipe"), "\"linear\"");
  EXPECT_EQ(field(o.last_line(), "device"), "\"interp\"");
  for (const char* key : {"threads", "seed", "steps", "seconds", "steps_per_second", "loss", "parameters", "examples",
                          "first_rate", "last_rate"})
    number(o.last_line(), key);
  EXPECT_EQ(field(o.last_line(), "parameters"), "2");
  EXPECT_EQ(field(o.last_line(), "data"), "\"made for this run from the seed\"");
  EXPECT_EQ(field(o.last_line(), "next"), "\"caravan train linear --save linear.safetensors --plot pictures\"");
}

TEST_F(Command, TrainMoonsLearns) {
  const string text = run({"train", "moons", "--epochs", "4", "--seed", "3"}).out;
  EXPECT_CONTAINS(text, "epoch 4 of 4: loss ");
  EXPECT_CONTAINS(text, "Decision boundary");
  EXPECT_CONTAINS(text, "\nresult   accuracy ");
  const Outcome o = run({"train", "moons", "--epochs", "4", "--seed", "3", "--json"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(field(o.last_line(), "steps"), "320");
  EXPECT_EQ(field(o.last_line(), "seed"), "3");
  EXPECT_LT(number(o.last_line(), "epoch_loss"), 8);
  EXPECT_GT(number(o.last_line(), "train_accuracy"), 0.9);
}

TEST_F(Command, TrainMoonsDrawsOneCurveAndTheBoundaryAndMoreToFiles) {
  const string to = folder_ + "/pictures";
  const Outcome o = run({"train", "moons", "--epochs", "8", "--plot", to});
  EXPECT_EQ(o.code, 0) << o.err;
  size_t last = 0;
  for (const string& phrase : {string("Loss on a logarithmic scale"), string("Decision boundary"),
                               "pictures " + to + "/: learning_rate.svg,", string("boundary.svg")}) {
    const size_t at = o.out.find(phrase);
    ASSERT_NE(at, string::npos) << phrase << o.out;
    EXPECT_GT(at, last);
    last = at;
  }
  for (const char* file : {"learning_rate.svg", "loss.svg", "log_loss.svg", "boundary.svg"}) {
    const string svg = content(to + "/" + file);
    EXPECT_CONTAINS(svg, "<svg ");
    EXPECT_CONTAINS(svg, "</svg>");
  }
  EXPECT_CONTAINS(content(to + "/learning_rate.svg"), "epoch 1: 0.2<");
  EXPECT_CONTAINS(content(to + "/learning_rate.svg"), "epoch 8: 0.1125<");
  EXPECT_EQ(run({"train", "linear", "--steps", "5", "--quiet", "--plot", to + "/linear"}).out, "");
  EXPECT_TRUE(exists(to + "/linear/loss.svg"));
  EXPECT_FALSE(exists(to + "/linear/boundary.svg"));  // there is no plane to divide
}

TEST_F(Command, TrainMultiplySmallPredictsProducts) {
  const Outcome o = run({"train", "multiply-small"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, "step 200,000 of 200,000: loss ");
  size_t examples = 0;
  for (size_t at = o.out.find(", we predict "); at != string::npos; at = o.out.find(", we predict ", at + 1))
    ++examples;
  EXPECT_EQ(examples, 10u);
  const Outcome json = run({"train", "multiply-small", "--json"});
  EXPECT_EQ(field(json.out, "steps"), "200000");
  EXPECT_LT(number(json.out, "mean_absolute_error"), 0.5);
}

TEST_F(Command, DevicesAgree) {
  for (const char* recipe : {"linear", "moons", "multiply-small"}) {
    auto losses = [&](const char* device) {
      const Outcome o = run({"train", recipe, "--steps", "50", "--seed", "4", "--quiet", "--json", "--device", device});
      EXPECT_EQ(o.code, 0) << o.err;
      EXPECT_EQ(field(o.out, "device"), string("\"") + device + "\"");
      return number(o.out, "epoch_loss");
    };
    const double exact = losses("interp");
    EXPECT_NEAR(losses("cpu"), exact, 1e-4 * exact) << recipe;
  }
}

TEST_F(Command, TrainCompilesWhereItCanAndSaysSo) {
  const Arguments train = {"train", "moons", "--steps", "20", "--quiet", "--json"};
  const Outcome compiled = run(train);
  EXPECT_EQ(compiled.code, 0) << compiled.err;
  EXPECT_EQ(compiled.err, "");
  EXPECT_EQ(field(compiled.out, "device"), "\"cpu\"");
  EXPECT_GT(number(compiled.out, "compile_seconds"), 0);
  EXPECT_GE(number(compiled.out, "peak_bytes"), 640);
  EXPECT_GE(number(compiled.out, "threads"), 1);

  std::filesystem::create_directory(folder_ + "/bin");
  std::ofstream(folder_ + "/bin/cc") << "#!/bin/sh\necho broken >&2\nexit 1\n";
  std::filesystem::permissions(folder_ + "/bin/cc", std::filesystem::perms::owner_all);
  const string none = "CARAVAN_CACHE=" + folder_ + "/none";
  const Outcome broken = run(train, {"PATH=" + folder_ + "/bin", none});
  EXPECT_EQ(broken.code, 3) << "a compiler that fails is not a missing one: the run does not become an interpreted one";
  EXPECT_CONTAINS(broken.err, "the C compiler `cc` cannot be run");
  EXPECT_EQ(broken.out, "");
  EXPECT_EQ(
      run({"train", "moons", "--steps", "20", "--quiet", "--device", "interp"}, {"PATH=" + folder_ + "/bin", none})
          .code,
      0)
      << "which asks for no compiler";
  for (const char* path : {"/nowhere", "/bin"}) {
    const Outcome cached = run(train, {"PATH=" + folder_ + path});
    EXPECT_EQ(cached.code, 0) << cached.err;
    EXPECT_EQ(field(cached.out, "device"), "\"cpu\"") << "what is in the cache needs no compiler";
    EXPECT_EQ(field(cached.out, "loss"), field(compiled.out, "loss"));
    const Outcome other =
        run({"train", "circle", "--steps", "21", "--batch", "50", "--quiet"}, {"PATH=" + folder_ + path});
    EXPECT_EQ(other.code, 3) << "and what is not there is not interpreted";
    EXPECT_CONTAINS(other.err, "`cc`");
  }

  const Arguments nothing = {"PATH=/nowhere", none};
  const Outcome interpreted = run(train, nothing);
  EXPECT_EQ(interpreted.code, 0) << interpreted.err;
  EXPECT_EQ(field(interpreted.out, "device"), "\"interp\"");
  EXPECT_EQ(field(interpreted.out, "peak_bytes"), "no peak_bytes");
  EXPECT_CONTAINS(interpreted.err, "is interpreted, which is slow, because there is no `cc` on the PATH");
  EXPECT_EQ(interpreted.err.find('\n'), interpreted.err.size() - 1);

  Arguments demanded = train;
  demanded.insert(demanded.end(), {"--device", "cpu", "--threads", "2"});
  EXPECT_EQ(run(demanded).code, 0);
  EXPECT_EQ(run(demanded, nothing).code, 3);
}

TEST_F(Command, TrainSpendsItsTimeInTheStep) {
  const Outcome o = run({"train", "moons", "--quiet", "--json", "--device", "cpu"});
  EXPECT_EQ(field(o.out, "steps"), "6400");
  EXPECT_LT(number(o.out, "epoch_loss"), 0.1);
  EXPECT_LT(number(o.out, "seconds"), 0.1);
}

TEST_F(Command, DebugKernelsCanBeStoppedAtALineOfTheirC) {
  const Arguments train = {"train", "moons", "--steps", "2", "--quiet", "--debug-kernels"};
  const Outcome o = run(train);
  ASSERT_EQ(o.code, 0) << o.err;
  const string phrase = "The C of a step: ";
  ASSERT_EQ(o.out.find(phrase), 0u) << o.out;
  const string source = o.out.substr(phrase.size(), o.out.find('\n') - phrase.size());
  EXPECT_EQ(run(train).out, o.out);  // the cache keeps it there

  std::istringstream lines(content(source));
  int stop = 0, n = 1;
  bool in_kernel = false;
  for (string line; std::getline(lines, line) && stop == 0; ++n) {
    in_kernel = in_kernel || line.find("static void k0_") == 0;
    if (in_kernel && line.find("+= ") != string::npos) stop = n;
  }
  ASSERT_GT(stop, 0) << content(source);

  const string gdb = "/usr/bin/gdb", at = source + ":" + std::to_string(stop);
  if (!exists(gdb)) GTEST_SKIP() << "gdb is not installed (apt-get install gdb)";
  const string key = std::filesystem::path(source).filename().string(),
               library = cache_ + "/" + key.substr(0, key.find('.')) + ".so";
  const Outcome found = run_program({gdb, "-batch", "-nx", "-ex", "break " + at, library});
  EXPECT_CONTAINS(found.out, "Breakpoint 1 at ");
  EXPECT_CONTAINS(found.out, ", line " + std::to_string(stop) + ".");

  Arguments debugged = {gdb,         "-batch",      "-nx",          "-ex", "set breakpoint pending on",
                        "-ex",       "break " + at, "-ex",          "run", "-ex",
                        "backtrace", "--args",      CARAVAN_COMMAND};
  debugged.insert(debugged.end(), train.begin(), train.end());
  const Outcome stopped = run_program(debugged);
  if ((stopped.out + stopped.err).find("ptrace") != string::npos)
    GTEST_SKIP() << "programs may not be traced here: " << stopped.err;
  EXPECT_CONTAINS(stopped.out, "Breakpoint 1, k0_");
  EXPECT_CONTAINS(stopped.out, "caravan_run");
}

TEST_F(Command, TrainRepeatsBitForBitAndSeedsDiffer) {
  auto loss = [&](const char* seed) {
    return field(run({"train", "moons", "--steps", "30", "--quiet", "--json", "--seed", seed}).out, "loss");
  };
  EXPECT_EQ(loss("2"), loss("2"));
  EXPECT_NE(loss("2"), loss("3"));
}

TEST_F(Command, TrainIsQuietWhenAsked) {
  EXPECT_EQ(run({"train", "moons", "--steps", "5", "--quiet"}).out, "");
  const Outcome o = run({"train", "moons", "--steps", "5", "--batch", "20", "--lr", "0.05", "--quiet", "--json"});
  EXPECT_EQ(o.out.find('\n'), o.out.size() - 1);
  EXPECT_EQ(field(o.out, "steps"), "5");
  EXPECT_EQ(field(o.out, "batch"), "20");
}

TEST_F(Command, TrainThatDivergesFailsItsCheck) {
  const Outcome o = run({"train", "linear", "--lr", "1000", "--quiet"});
  EXPECT_EQ(o.code, 1);
  EXPECT_CONTAINS(o.err, "diverged");
  EXPECT_CONTAINS(o.err, "--check-numbers");
  EXPECT_EQ(o.err.find('\n'), o.err.size() - 1) << "one sentence";
}

TEST_F(Command, TrainNamesTheFirstNumberThatIsNotFinite) {
  for (const char* device : {"cpu", "interp"}) {
    const Outcome o =
        run({"train", "linear", "--lr", "1e30", "--quiet", "--json", "--check-numbers", "--device", device});
    EXPECT_EQ(o.code, 1) << o.err;
    EXPECT_EQ(field(o.out, "end"), "\"not finite\"");  // a program that reads the JSON is told
    EXPECT_CONTAINS(o.err, "caravan: at step ");
    EXPECT_CONTAINS(o.err, "the first value that is not finite: square(");
    EXPECT_CONTAINS(o.err, "(forward)");
    EXPECT_CONTAINS(o.err, "linear.cpp:");
    EXPECT_CONTAINS(o.err, "holds     inf at [0]");
    EXPECT_CONTAINS(o.err, "reads     add(..) - y in ");
  }
  const Arguments good = {"train", "linear", "--steps", "30", "--quiet", "--json"};
  Arguments checked = good;
  checked.push_back("--check-numbers");
  const Outcome plain = run(good), looked_at = run(checked);
  EXPECT_EQ(looked_at.code, 0) << looked_at.err;
  EXPECT_EQ(field(looked_at.out, "loss"), field(plain.out, "loss"));
  EXPECT_EQ(looked_at.err, "");
}

using Json = nlohmann::json;

const Json* find_label(const Json& list, const string& key, const string& label) {
  for (const Json& entry : list)
    if (entry.at(key) == label) return &entry;
  ADD_FAILURE() << "no " << key << " " << label << " in " << list.dump(1);
  return nullptr;
}

TEST_F(Command, TheTraceTellsAProgramFromNotationToValues) {
  const Outcome o =
      run({"train", "moons", "--steps", "40", "--quiet", "--json", "--trace", "deep/trace.json", "--pass-off", "fuse"});
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
  for (const Json& pass : trace.at("passes")) {
    passes.push_back(pass.at("name"));
    EXPECT_GE(pass.at("milliseconds").get<double>(), 0);
    EXPECT_TRUE(pass.at("changed").is_boolean());
  }
  auto has = [&](const char* name) { return std::find(passes.begin(), passes.end(), name) != passes.end(); };
  EXPECT_TRUE(has("inline_producers") && has("lower") && has("forward_stores"));
  EXPECT_FALSE(has("fuse")) << "it is off";
  EXPECT_GT(trace.at("passes").front().at("accumulations").get<int>(), 10);
  EXPECT_EQ(trace.at("passes").back().at("kernels"), trace.at("kernels").size());

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

TEST_F(Command, SettingsComeFromTheCommandLineThenTheEnvironmentThenTheFile) {
  std::ofstream(folder_ + "/caravan.toml") << "seed = 5\nthreads = 3\ndata = \"/somewhere\"\n";
  const Outcome o = run({"doctor", "--json"}, {"CARAVAN_THREADS=2"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, R"("seed":{"value":"5","source":"caravan.toml"})");
  EXPECT_CONTAINS(o.out, R"("threads":{"value":"2","source":"CARAVAN_THREADS"})");
  EXPECT_CONTAINS(o.out, R"("data":{"value":"/somewhere","source":"caravan.toml"})");
  EXPECT_CONTAINS(o.out, R"("device":{"value":"auto","source":"default"})");
  EXPECT_CONTAINS(o.out, R"({"name":"interp","built":true)");

  const Arguments train = {"train", "moons", "--steps", "1", "--quiet", "--json"};
  EXPECT_EQ(field(run(train).out, "seed"), "5");
  EXPECT_EQ(field(run(train, {"CARAVAN_SEED=6"}).out, "seed"), "6");
  Arguments with_seed = train;
  with_seed.insert(with_seed.end(), {"--seed", "7", "--log", "1"});
  const Outcome logged = run(with_seed, {"CARAVAN_SEED=6"});
  EXPECT_EQ(field(logged.out, "seed"), "7");
  EXPECT_CONTAINS(logged.err, "command line");
  EXPECT_CONTAINS(logged.err, "caravan.toml");
}

string repeated(const string& text, int times) {
  string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// What a command writes to standard error, which is a terminal.
string said_on_a_terminal(const Arguments& arguments, const Arguments& environment) {
  int terminal = -1, end = -1;
  if (openpty(&terminal, &end, nullptr, nullptr, nullptr) != 0) return "no terminal";
  const pid_t child = fork();
  if (child == 0) {
    for (const string& e : environment) putenv(const_cast<char*>(e.c_str()));
    std::vector<char*> argv;
    for (const string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    if (dup2(end, 2) == 2 && dup2(open("/dev/null", O_WRONLY), 1) == 1) execv(argv[0], argv.data());
    _exit(127);
  }
  close(end);
  string out;
  char buffer[512];
  for (ssize_t n; (n = read(terminal, buffer, sizeof buffer)) > 0;) out.append(buffer, size_t(n));
  close(terminal);
  waitpid(child, nullptr, 0);
  return out;
}
TEST_F(Command, ALongCompilationIsToldOnATerminalAlone) {
  std::filesystem::create_directory(folder_ + "/bin");
  const string slow = folder_ + "/bin/cc", path = string("PATH=") + folder_ + "/bin:" + getenv("PATH");
  std::ofstream(slow) << "#!/bin/sh\ncase \"$*\" in *-shared*) sleep 1.5;; esac\nexec /usr/bin/cc \"$@\"\n";
  std::filesystem::permissions(slow, std::filesystem::perms(0755));
  const Arguments train = {CARAVAN_COMMAND, "train", "linear", "--steps", "1", "--device", "cpu"};
  auto with = [&](Arguments more) {
    Arguments out = train;
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  auto cache = [&](const char* name) { return "CARAVAN_CACHE=" + folder_ + "/" + name; };
  const string told = said_on_a_terminal(train, {path, cache("a")});
  const size_t at = told.find("\rcompiling\x1b[K");
  ASSERT_NE(at, string::npos) << told;
  EXPECT_NE(told.find("\r\x1b[K", at + 1), string::npos) << "the line goes: " << told;
  EXPECT_EQ(said_on_a_terminal(train, {path, cache("a")}).find("compiling"), string::npos) << "from the cache";
  EXPECT_NE(said_on_a_terminal(with({"--json"}), {path, cache("b")}).find("compiling"), string::npos);
  EXPECT_EQ(said_on_a_terminal(train, {path, cache("e"), "TERM=dumb"}).find("compiling"), string::npos);
  EXPECT_EQ(said_on_a_terminal(with({"--quiet"}), {path, cache("c")}).find("compiling"), string::npos);
  EXPECT_EQ(run_program(train, {path, cache("d")}).err.find("compiling"), string::npos) << "no terminal";
}

TEST_F(Command, AnotherRateOrNumberOfStepsCompilesNothing) {
  const Arguments own = {"CARAVAN_CACHE=" + folder_ + "/kernels"};
  auto kernels = [&] { return number(run({"doctor", "--json"}, own).out, "kernels"); };
  const Outcome first = run({"train", "moons", "--quiet", "--json", "--device", "cpu", "--steps", "100"}, own);
  const double compiled = kernels();
  EXPECT_GT(compiled, 0);
  const Outcome other =
      run({"train", "moons", "--quiet", "--json", "--device", "cpu", "--steps", "90", "--lr", "0.03"}, own);
  EXPECT_EQ(kernels(), compiled);
  EXPECT_NE(number(first.out, "loss"), number(other.out, "loss"));
}

TEST_F(Command, ThreadsAreThoseThatTheProcessMayHave) {
  const Outcome o = run_program({"/usr/bin/taskset", "-c", "0", CARAVAN_COMMAND, "doctor", "--json"});
  if (o.code == 127) GTEST_SKIP() << "there is no taskset";
  EXPECT_CONTAINS(o.out, R"("threads":{"value":"1","source":"default"})");
  EXPECT_CONTAINS(o.out, R"("allowed":1,"usable":1)");
  EXPECT_CONTAINS(run_program({"/usr/bin/taskset", "-c", "0", CARAVAN_COMMAND, "doctor"}).out, "\ncores    1 of ");
}

TEST_F(Command, WrongSettingsNameTheirSource) {
  EXPECT_CONTAINS(run({"doctor"}, {"CARAVAN_THREADS=many"}).err, "threads (from CARAVAN_THREADS) is `many`");
  EXPECT_EQ(run({"train", "moons"}, {"CARAVAN_DEVICE=abacus"}).code, 2);
  struct {
    string file, phrase;
  } rows[] = {
      {"sead = 5\n", "line 1: there is no setting `sead`"},
      {"\nseed = [1]\n", "line 2: `seed` must be"},
      {"seed = \n", "line 1"},
      {"threads = 0\n", "threads (from caravan.toml) is `0`"},
      {"seed = 1\ncache = \".k\"\n",
       "line 2: `cache` is not taken from a file of the current folder, because whoever wrote the file could have code "
       "of theirs run; remove the line, and set CARAVAN_CACHE"},
      {"cache_limit = 1\n", "line 1: `cache_limit` is not taken from a file of the current folder"},
      {"seed = 1\n" + repeated("a.", 30'000) + "a = 1\n", "line 2: it has more than 32 dots"},
      {"[" + repeated("a.", 25'000) + "a]\n", "line 1: it has more than 32 dots"},
      {repeated("# a remark\n", 6'000), "caravan.toml has 66000 bytes, and at most 65536 are read"},
      {"seed = " + repeated("[", 10'000), "caravan.toml, line 1"},
      {"compiler = \"./cc\"\n", "there is no setting `compiler`; there are device, threads, log, data, seed."},
  };
  for (const auto& [file, phrase] : rows) {
    std::ofstream(folder_ + "/caravan.toml") << file;
    const Outcome o = run({"doctor"});
    EXPECT_EQ(o.code, 2) << file;
    EXPECT_CONTAINS(o.err, phrase);
    EXPECT_EQ(run({"doctor", "--help"}).code, 0);
  }
  const string path = folder_ + "/caravan.toml";
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_CONTAINS(run({"doctor"}).err, "caravan.toml cannot be read: it is a FIFO");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_CONTAINS(run({"doctor"}).err, "caravan.toml cannot be read: it is a folder");
}

// A fixture whose results the interpreter computed, with one of them changed.
void write_fixture(const string& path, const string& changed = "", double by = 0) {
  using namespace caravan;
  const parity::RandomFixture random(6);
  ContextOptions options;
  options.device = "interp";
  parity::Arrays results = parity::train(parity::fixture_from(random.tensors), options);
  if (!changed.empty()) results.at(changed).set(1, results.at(changed).at(1) + by);
  data::write_safetensors(path, parity::completed(random.tensors, results));
}

TEST_F(Command, ParityComparesEveryTensor) {
  write_fixture(folder_ + "/good.safetensors");
  const Outcome table = run({"parity", "good.safetensors", "--device", "cpu"});
  EXPECT_EQ(table.code, 0) << table.out << table.err;
  EXPECT_CONTAINS(table.out, "passed; the worst is at ");
  for (const char* phrase : {"losses ", "grad.", "final.", "eval_output ", "1e-04", "2e-03"})
    EXPECT_CONTAINS(table.out, phrase);

  write_fixture(folder_ + "/bad.safetensors", "losses", 0.5);
  const Outcome both = run(
      {"parity", "good.safetensors", "bad.safetensors", "--quiet", "--json", "--device", "interp", "--threads", "2"});
  EXPECT_EQ(both.code, 1) << both.err;
  const string json = both.out;
  EXPECT_EQ(json.find('\n'), json.size() - 1) << "JSON and nothing else";
  EXPECT_EQ(field(json, "device"), "\"interp\"");
  EXPECT_EQ(field(json, "checked"), "2");
  EXPECT_EQ(field(json, "failed"), "1");
  EXPECT_CONTAINS(json, "\"losses_part_at\":1");
  EXPECT_CONTAINS(json, "\"losses_part_at\":null");

  write_fixture(folder_ + "/gradient.safetensors", "eval_output", 0.5);
  EXPECT_EQ(run({"parity", "gradient.safetensors", "--device", "interp"}).code, 1);
}

TEST_F(Command, ParityRefusesUnusableFilesBeforeItRunsAny) {
  write_fixture(folder_ + "/good.safetensors");
  std::ofstream(folder_ + "/short.safetensors") << "abc";
  std::ofstream(folder_ + "/cut.safetensors", std::ios::binary)
      << content(folder_ + "/good.safetensors").substr(0, 5000);
  caravan::data::write_safetensors(folder_ + "/other.safetensors", {});
  const std::pair<Arguments, string> rows[] = {
      {{"parity"}, "`caravan parity`: FILE is required"},
      {{"parity", "none.safetensors"}, "`none.safetensors` cannot be read: No such file"},
      {{"parity", "."}, "`.` cannot be read: it is a folder, not a regular file"},
      {{"parity", "good.safetensors", "short.safetensors"},
       "`short.safetensors` is not a usable safetensors file: it has 3 bytes"},
      {{"parity", "cut.safetensors"}, "`cut.safetensors` is not a usable safetensors file: "},
      {{"parity", "other.safetensors"},
       "`other.safetensors`: it is not a parity fixture: its metadata has no `fixture`."},
      {{"parity", "good.safetensors", "--device", "tpu"}, "device kind `tpu` is not built"},
  };
  for (const auto& [arguments, phrase] : rows) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << joined(arguments);
    EXPECT_CONTAINS(o.err, phrase);
    EXPECT_EQ(o.out, "") << joined(arguments);
    EXPECT_EQ(o.err.find('\n'), o.err.size() - 1) << o.err;
  }
}

TEST_F(Command, DoctorSaysWhatIsThere) {
  const Outcome o = run({"doctor"});
  EXPECT_EQ(o.code, 0);
  for (const char* phrase : {"compiler ", "interp ", "cuda ", "target ", "cache ", "threads ", "default"})
    EXPECT_CONTAINS(o.out, phrase);
  EXPECT_CONTAINS(run({"--version"}).out, "caravan ");
}

TEST_F(Command, DoctorFindsTheCompilerAndMeasuresTheCache) {
  const string cache = "CARAVAN_CACHE=" + folder_ + "/kernels";
  EXPECT_CONTAINS(run({"doctor"}, {cache}).out,
                  "cache    0 kernels, 0.0 MB of at most 1000 MB in " + folder_ + "/kernels");
  EXPECT_FALSE(exists(folder_ + "/kernels"));  // a doctor looks
  EXPECT_EQ(run({"train", "linear", "--steps", "1", "--quiet", "--device", "cpu"}, {cache}).code, 0);
  const Outcome o = run({"doctor", "--json"}, {cache});
  EXPECT_EQ(o.out.find('\n'), o.out.size() - 1);
  EXPECT_CONTAINS(o.out, R"({"name":"cpu","built":true,"works":true,"note":"compiled by /)");
  EXPECT_CONTAINS(field(o.out, "path"), "/cc");
  EXPECT_GE(number(o.out, "kernels"), 1);
  EXPECT_GT(number(o.out, "bytes"), 1000);

  const Outcome without = run({"doctor"}, {"PATH=/nowhere"});
  EXPECT_EQ(without.code, 0);
  EXPECT_CONTAINS(without.out, "cpu      no     there is no `cc` on the PATH");
}

TEST_F(Command, CacheShowsWhatIsKeptAndEmptiesIt) {
  const string cache = folder_ + "/kernels", set = "CARAVAN_CACHE=" + cache;
  EXPECT_EQ(run({"cache"}, {set}).out, "0 kernels, 0.0 MB of at most 1000 MB in " + cache + "\n");
  EXPECT_FALSE(exists(cache)) << "it only looks";
  ASSERT_EQ(run({"train", "linear", "--steps", "1", "--quiet", "--device", "cpu"}, {set}).code, 0);
  EXPECT_EQ(std::filesystem::status(cache).permissions(), std::filesystem::perms::owner_all);
  std::ofstream(cache + "/mine") << "not a kernel";
  int64_t made = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cache)) made += entry.path().extension() == ".so";
  EXPECT_GE(made, 1);
  const string kernels = (made == 1 ? "1 kernel" : std::to_string(made) + " kernels") + ", 0.";
  EXPECT_TRUE(run({"cache"}, {set, "CARAVAN_CACHE_LIMIT=0"}).out.starts_with(kernels));
  EXPECT_TRUE(run({"cache"}, {set, "CARAVAN_CACHE_LIMIT=0"}).out.ends_with(" MB in " + cache + "\n"));
  const Outcome json = run({"cache", "--json"}, {set, "CARAVAN_CACHE_LIMIT=20"});
  EXPECT_EQ(number(json.out, "kernels"), double(made));
  EXPECT_EQ(number(json.out, "limit"), 20e6);
  EXPECT_EQ(field(json.out, "problem"), "\"\"");

  std::filesystem::permissions(cache, std::filesystem::perms::all);
  const string why = "not used, because `" + cache + "` can be written by others (mode 0777); `chmod 700 " + cache +
                     "` mends it; each process compiles for itself\n";
  EXPECT_CONTAINS(run({"cache"}, {set}).out, why);
  EXPECT_CONTAINS(run({"doctor"}, {set}).out, why);
  const Outcome unused = run({"train", "linear", "--steps", "1", "--quiet", "--json", "--log", "1"}, {set});
  EXPECT_EQ(field(unused.out, "device"), "\"cpu\"") << unused.err;
  EXPECT_CONTAINS(unused.err, "cache is " + why);
  std::filesystem::permissions(cache, std::filesystem::perms::owner_all);

  const Outcome cleared = run({"cache", "--clear"}, {set});
  EXPECT_CONTAINS(cleared.out, "Removed " + kernels);
  EXPECT_CONTAINS(cleared.out, " MB, from " + cache + ".\n");
  EXPECT_CONTAINS(run({"cache"}, {set}).out, "0 kernels, 0.0 MB");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache), {}), 1) << "what is not a kernel stays";
  EXPECT_CONTAINS(run({"cache"}, {set, "CARAVAN_CACHE_LIMIT=-1"}).err,
                  "cache_limit (from CARAVAN_CACHE_LIMIT) is `-1`");
}

TEST_F(Command, NothingOfTheCurrentFolderIsTakenForTheUsers) {
  const Arguments unset = {"HOME=", "CARAVAN_CACHE="};
  for (const Arguments& arguments : {Arguments{"train", "linear", "--steps", "1", "--quiet", "--device", "cpu"},
                                     Arguments{"doctor"}, Arguments{"cache"}, Arguments{"data", "list"}}) {
    const Outcome o = run(arguments, unset);
    EXPECT_EQ(o.code, 0) << o.err;
  }
  EXPECT_CONTAINS(run({"cache"}, unset).out, "not used, because neither HOME nor XDG_CACHE_HOME is an absolute path");
  EXPECT_CONTAINS(run({"data", "get", "gpt2-bpe"}, {"HOME=.", "CARAVAN_CACHE=", "CARAVAN_DATA="}).err,
                  "choose one with --to");
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_TRUE(entry.path().filename() == "stdout" || entry.path().filename() == "stderr") << entry.path();
}

TEST_F(Command, ATemporaryFolderThatIsNotThereIsToldByTheDoctor) {
  const Outcome o = run({"doctor"}, {"TMPDIR=/nonexistent"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, "TMPDIR is `/nonexistent`, which is not a folder; /tmp is used instead");
  EXPECT_CONTAINS(o.out, "cpu      yes");
  EXPECT_EQ(run({"train", "linear", "--steps", "1", "--quiet", "--device", "cpu"},
                {"TMPDIR=/nonexistent", "CARAVAN_CACHE=" + folder_ + "/new"})
                .code,
            0);
}

TEST_F(Command, HelpIsAskedForInThreeWays) {
  const string help = run({"help", "train", "moons"}).out;
  EXPECT_EQ(run({"train", "moons", "--help"}).out, help);
  EXPECT_EQ(run({"train", "moons", "-h"}).out, help);
  for (const char* title : {"\nOptions\n", "\nFiles\n", "\nThe compiler\n", "\nEverywhere\n"})
    EXPECT_CONTAINS(help, title);
  EXPECT_LT(help.find("--epochs"), help.find("--pass-off"));
  const Outcome alone = run({});
  EXPECT_EQ(alone.code, 0);
  EXPECT_CONTAINS(alone.out, "`caravan help COMMAND`");
  EXPECT_LT(std::count(alone.out.begin(), alone.out.end(), '\n'), 20);
  EXPECT_EQ(run({"-V"}).out, run({"--version"}).out);
}

TEST_F(Command, ShellsCompleteWhatTheTableHas) {
  auto completed = [&](const string& words, int count) {
    const string script = string("source <(\"$0\" completion bash); COMP_WORDS=(") + words +
                          "); COMP_CWORD=" + std::to_string(count) +
                          "; compopt() { :; }; _caravan; echo \"${COMPREPLY[*]}\"";
    return run_program({"/bin/bash", "-c", script, CARAVAN_COMMAND}).out;
  };
  EXPECT_EQ(completed("caravan tr", 1), "train\n");
  EXPECT_EQ(completed("caravan train mo", 2), "moons\n");
  EXPECT_EQ(completed("caravan train moons --ep", 3), "--epochs\n");
  EXPECT_EQ(completed("caravan train moons --optimizer ad", 4), "adam adamw\n");
  EXPECT_EQ(completed("caravan inspect moons --stage con", 4), "constraints\n");
  std::ofstream(folder_ + "/model.safetensors");
  EXPECT_EQ(completed("caravan eval mod", 2), "model.safetensors\n");
  const string files = completed("caravan eval ''", 2);
  EXPECT_CONTAINS(files, "model.safetensors");
  EXPECT_EQ(files.find("--"), string::npos) << files;
  EXPECT_CONTAINS(completed("caravan eval -", 2), "--plot");
  EXPECT_EQ(completed("caravan train moons --save mod", 4), "model.safetensors\n");
  EXPECT_EQ(completed("caravan summary mo", 2), "moons model.safetensors\n");
  EXPECT_EQ(completed("caravan help tr", 2), "train\n");
  EXPECT_EQ(completed("caravan help train mo", 3), "moons\n");
  EXPECT_EQ(completed("caravan data get na", 3), "names\n");
  EXPECT_EQ(completed("caravan gradcheck softp", 2), "softplus\n");
  const std::pair<const char*, const char*> others[] = {
      {"zsh", "'--epochs[Passes over the 800 points \\[80\\]]:N: '"},
      {"fish", "-n '__fish_seen_subcommand_from train; and __fish_seen_subcommand_from moons' -l epochs -x"}};
  for (const auto& [shell, phrase] : others) {
    const Outcome script = run({"completion", shell});
    EXPECT_CONTAINS(script.out, phrase);
    const string program = string("/usr/bin/") + shell;
    std::ofstream(folder_ + "/script") << script.out;
    if (exists(program)) {
      EXPECT_EQ(run_program({program, "-n", folder_ + "/script"}).err, "");
    }
  }
  if (!exists("/usr/bin/fish")) return;
  auto in_fish = [&](const string& line) {
    return run_program({"/usr/bin/fish", "-c",
                        "source script; complete -C '" + line + "' | string split -f1 \\t | string join ' '"})
        .out;
  };
  EXPECT_EQ(in_fish("caravan data get fash"), "fashion-mnist\n");
  EXPECT_EQ(in_fish("caravan data get wher"), "") << "get is there already";
  EXPECT_EQ(in_fish("caravan help tra"), "train\n");
  EXPECT_EQ(in_fish("caravan summary mo"), "model.safetensors moons\n");
  EXPECT_EQ(in_fish("caravan eval mo"), "model.safetensors\n");
}

TEST_F(Command, EveryCommandHasAManPage) {
  EXPECT_EQ(run({"man", "pages"}).code, 0);
  for (const char* page : {"caravan", "caravan-train", "caravan-einsum", "caravan-data", "caravan-new"}) {
    const string path = folder_ + "/pages/" + page + ".1";
    EXPECT_TRUE(content(path).starts_with(".TH ")) << page;
    if (!exists("/usr/bin/groff")) continue;
    const Outcome o = run_program({"/usr/bin/groff", "-man", "-Tascii", "-ww", path});
    EXPECT_EQ(o.err, "") << page;
    EXPECT_GT(o.out.size(), 500u);
  }
  EXPECT_CONTAINS(content(folder_ + "/pages/caravan-train.1"), "\\fB\\-\\-optimizer\\fR \\fINAME\\fR");
}

TEST_F(Command, SummaryListsTheLayersOfARecipeOrAFile) {
  const string recipe = run({"summary", "mnist-conv"}).out;
  EXPECT_CONTAINS(recipe, "one example has 784 numbers, 28,28,1");
  EXPECT_CONTAINS(recipe, "conv 2           5,5,64                 18,496\n");
  EXPECT_CONTAINS(recipe, "in all                                 225,034\n");
  ASSERT_EQ(run({"train", "moons", "--steps", "20", "--quiet", "--save", "moons"}).code, 0);
  const string file = run({"summary", "moons"}).out;  // a file that is there comes before a recipe
  EXPECT_CONTAINS(file, "saved    20 steps of 20, loss ");
  EXPECT_CONTAINS(file, "hidden 2         16                        272\n");
  const auto json = nlohmann::json::parse(run({"summary", "moons", "--json"}).out);
  EXPECT_EQ(json.at("parts").at(0).at("layers").at(0).at("parameters"), 48);
}

TEST_F(Command, NewMakesAProject) {
  for (const string recipe :
       {"", "linear", "moons", "circle", "multiply-small", "multiply-large", "mnist-mlp", "mnist-conv"}) {
    const string name = recipe.empty() ? "xor" : "my-" + recipe;
    Arguments arguments = {"new", name};
    if (!recipe.empty()) arguments.insert(arguments.end(), {"--recipe", recipe});
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_CONTAINS(o.out, "next     cd " + name + " && cmake -B build");
    const string source = content(folder_ + "/" + name + "/main.cpp");
    EXPECT_CONTAINS(source, "int main() {");
    EXPECT_EQ(source.find('@'), string::npos) << source;
    EXPECT_CONTAINS(content(folder_ + "/" + name + "/CMakeLists.txt"), "find_package(caravan REQUIRED)");
  }
  EXPECT_TRUE(exists(folder_ + "/my-moons/moons.csv"));
  EXPECT_EQ(content(folder_ + "/xor/main.cpp"), content("examples/xor.cpp")) << "the program of the start page";
  EXPECT_CONTAINS(run({"new", "auto", "--recipe", "mnist-autoencoder"}).err,
                  "there is no project to start from for the recipe mnist-autoencoder; there is one for xor, linear,");
  const Outcome again = run({"new", "xor"});
  EXPECT_EQ(again.code, 2);
  EXPECT_CONTAINS(again.err, "`xor` is there already");
}

TEST_F(Command, HelpHasExamplesEverywhere) {
  for (const Arguments& path : std::vector<Arguments>{{},
                                                      {"einsum"},
                                                      {"gradcheck"},
                                                      {"ops"},
                                                      {"inspect"},
                                                      {"train"},
                                                      {"train", "linear"},
                                                      {"train", "moons"},
                                                      {"train", "multiply-small"},
                                                      {"parity"},
                                                      {"cache"},
                                                      {"doctor"}}) {
    Arguments all = path;
    all.push_back("--help");
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 0) << joined(all);
    EXPECT_CONTAINS(o.out, "Example");
    EXPECT_CONTAINS(o.out, "caravan" + joined(path));
  }
  for (const char* option : {"--epochs", "--device", "--plot", "--dump", "--pass-off", "--debug-kernels"})
    EXPECT_CONTAINS(run({"train", "moons", "--help"}).out, option);
}

}  // namespace

#else
TEST(Command, IsTested) { GTEST_SKIP() << "The command is not built; it needs CLI11, nlohmann_json and tomlplusplus."; }
#endif
