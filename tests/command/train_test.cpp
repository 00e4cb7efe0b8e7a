// caravan train: what it prints, draws and refuses, on each device.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>

#include "command.h"

namespace {

TEST_F(Command, TrainLinearFindsTheLineAndShowsTheWay) {
  const Outcome text = run({"train", "linear", "--device", "interp"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_CONTAINS(text.out, "square <- [");  // the graph with values
  EXPECT_CONTAINS(text.out, "grad=");
  EXPECT_CONTAINS(text.out, "d loss / d ");     // the backward pass
  EXPECT_CONTAINS(text.out, "epoch 20 of 20");  // plain lines in a pipe
  EXPECT_CONTAINS(text.out, "Loss on a logarithmic scale");
  EXPECT_CONTAINS(text.out, "true: y = 3 x - 0.5");
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
  EXPECT_EQ(field(o.last_line(), "next"), "\"caravan train linear --save model.safetensors --plot plots\"");
}

TEST_F(Command, TrainMoonsLearns) {
  const string text = run({"train", "moons", "--epochs", "4", "--seed", "3"}).out;
  EXPECT_TRUE(std::regex_search(text, std::regex("epoch 4 of 4: loss [0-9.]+, accuracy 9[0-9.]+ %"))) << text;
  EXPECT_CONTAINS(text, "left); accuracy, % (+, right)");
  EXPECT_CONTAINS(text, "Decision boundary");
  EXPECT_CONTAINS(text, "\nresult   accuracy ");
  const Outcome o = run({"train", "moons", "--epochs", "4", "--seed", "3", "--json"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(field(o.last_line(), "steps"), "320");
  EXPECT_EQ(field(o.last_line(), "seed"), "3");
  EXPECT_LT(number(o.last_line(), "epoch_loss"), 8);
  EXPECT_GT(number(o.last_line(), "train_accuracy"), 0.9);
  const auto curve = nlohmann::json::parse(o.out).at("curve");
  ASSERT_EQ(curve.size(), 4U);
  for (size_t i = 1; i < curve.size(); ++i)  // of the points of an epoch, each before the step that learns from it
    EXPECT_GT(curve[i].at("accuracy").get<double>(), curve[i - 1].at("accuracy").get<double>());
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
  for (const char* file : {"learning_rate.svg", "loss.svg", "log_loss.svg", "accuracy.svg", "boundary.svg"}) {
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
  string kernel;  // the first that adds
  for (string line; std::getline(lines, line) && stop == 0; ++n) {
    if (const string head = "static void k"; line.find(head) == 0)
      kernel = line.substr(head.size() - 1, line.find('(') - head.size() + 1);
    if (line.find("  sum += ") != string::npos) stop = n;
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
  EXPECT_CONTAINS(stopped.out, "Breakpoint 1, " + kernel);
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

}  // namespace
