// Programs that begin on quickly compiled code, and change over to better code between two steps.
#include "caravan/backend/cc/quick_start.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "caravan/backend/cc/device.h"
#include "caravan/backend/cc/find_compiler.h"
#include "caravan/backend/cc/untested_device.h"
#include "caravan/backend/kernel_cache.h"
#include "caravan/base/processors.h"
#include "caravan/caravan.h"
#include "caravan/target/compile_times.h"
#include "contains.h"
#include "temporary_folder.h"

namespace caravan {
namespace {

namespace fs = std::filesystem;
using std::string;

string content(const string& path) {
  std::ifstream in(path, std::ios::binary);
  return string(std::istreambuf_iterator<char>(in), {});
}

// The C compiler of this machine. It compiles quickly at once, and well when it is allowed to.
class SlowCompiler {
 public:
  SlowCompiler() {
    const string in = folder_.path + "/", cc = cc::path_of("cc");
    std::ofstream(path()) << "#!/bin/sh\n"
                             "case \"$*\" in\n"
                             "  --version) echo slow compiler; exit 0;;\n"
                             "  *-ftree-vectorize*)\n"
                             "    echo quick >>" +
                                 in +
                                 "calls\n"
                                 "    for word; do case $word in *.c) cat \"$word\" >>" +
                                 in +
                                 "quick;; esac; done\n"
                                 "    exec " +
                                 cc +
                                 " \"$@\";;\n"
                                 "esac\n"
                                 "echo well >>" +
                                 in +
                                 "calls\n"
                                 "while [ ! -e " +
                                 in +
                                 "go ]; do sleep 0.01; done\n"
                                 "[ -e " +
                                 in +
                                 "fail ] && exit 1\n"
                                 "exec " +
                                 cc + " \"$@\"\n";
    chmod(path().c_str(), 0755);
  }
  string path() const { return folder_.path + "/cc"; }
  void go() const { std::ofstream(folder_.path + "/go"); }
  void fail() const { std::ofstream(folder_.path + "/fail"); }
  string quickly() const { return content(folder_.path + "/quick"); }  // all texts that it compiled quickly
  int calls(const string& kind) const {
    std::ifstream in(folder_.path + "/calls");
    int out = 0;
    for (string word; in >> word;) out += word == kind;
    return out;
  }

 private:
  TemporaryFolder folder_;
};

struct Machine {
  SlowCompiler compiler;
  TemporaryFolder cache;
  string folder = cache.path;
  Context context(bool quick_start = true) const {
    return Context({.make_device = [&](const ContextOptions&) {
      cc::DeviceOptions options;
      options.threads = 1;
      options.quick_start = quick_start, options.long_compilation = 0;
      options.compiler.compiler = compiler.path(), options.compiler.cache = folder;
      return cc::make_untested_device(options);
    }});
  }
  std::vector<string> files(const string& with) const {
    std::vector<string> out;
    for (const auto& entry : fs::directory_iterator(cache.path))
      if (const string name = entry.path().filename(); name.find(with) != name.npos) out.push_back(name);
    return out;
  }
};

const Index kStep("step", 4);
Program model() {
  std::vector<double> values;
  for (int k = 0; k < 60; ++k) values.push_back(0.01 * k * (k % 7));
  Tensor x = tensor(Array(parse_shape("4,5|3"), values), "x");
  Tensor w = param("w", {.output = {7}});
  return train_step(mean(tanh(w(x[kStep]))), sgd({.lr = 0.1}));
}
// Does the cache have the code of the routine?
bool is_kept(const RoutineReport& report) {
  constexpr size_t kKey = 32;  // characters, with which the names of its files begin
  const fs::path source = report.sources.at(0);
  return fs::exists(source.parent_path() / (source.filename().string().substr(0, kKey) + ".so"));
}
string texts_of(const RoutineReport& report) {
  string out;
  for (const string& source : report.sources) {
    EXPECT_TRUE(fs::exists(source)) << source;
    out += content(source);
  }
  return out;
}
std::vector<double> weights(const Context& ctx) { return ctx.read("w").values(); }

TEST(QuickStart, AProgramChangesOverBetweenTwoStepsAndKeepsItsBits) {
  const Machine slow, other;
  Context ctx = slow.context();
  Routine step = ctx.compile(model());
  EXPECT_TRUE(step.report().quick_code.used);
  for (int s = 0; s < 3; ++s) step.run({{kStep, s}});
  step.run_steps(5, {{kStep, 3}});
  EXPECT_FALSE(step.report().quick_code.changed);
  EXPECT_EQ(step.report().quick_code.steps, 8);
  EXPECT_EQ(step.report().quick_code.seconds, 0);
  EXPECT_FALSE(is_kept(step.report()));
  EXPECT_EQ(slow.files(".so").size(), 1u) << "quickly compiled code is not kept, but for that of the self-test";
  const string text = texts_of(step.report());
  EXPECT_CONTAINS(text, "caravan_run");
  EXPECT_CONTAINS(slow.compiler.quickly(), text);
  EXPECT_TRUE(slow.files(".part").empty());

  slow.compiler.go();
  step.finish_compiling();
  for (int s = 0; s < 4; ++s) step.run({{kStep, s}});
  step.run_steps(1000, {{kStep, 2}});
  const QuickCode quick = step.report().quick_code;
  EXPECT_TRUE(quick.changed);
  EXPECT_EQ(quick.problem, "");
  EXPECT_EQ(quick.steps, 8);
  EXPECT_GT(quick.seconds, 0);
  EXPECT_TRUE(is_kept(step.report()));
  EXPECT_EQ(texts_of(step.report()), text);
  EXPECT_TRUE(slow.files(".begun").empty());

  other.compiler.go();
  Context whole = other.context(false);
  Routine same = whole.compile(model());
  EXPECT_FALSE(same.report().quick_code.used);
  for (int s = 0; s < 3; ++s) same.run({{kStep, s}});
  same.run_steps(5, {{kStep, 3}});
  EXPECT_EQ(other.compiler.calls("quick"), 0);
  for (int s = 0; s < 4; ++s) same.run({{kStep, s}});
  same.run_steps(1000, {{kStep, 2}});
  EXPECT_EQ(weights(ctx), weights(whole));

  Context later = slow.context();
  const RoutineReport found = later.compile(model()).report();
  EXPECT_TRUE(found.from_cache);
  EXPECT_FALSE(found.quick_code.used);
}

TEST(QuickStart, ManyStepsOfOneCallChangeOverToo) {
  const Machine slow;
  Context ctx = slow.context();
  Routine step = ctx.compile(model());
  std::thread soon([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    slow.compiler.go();
  });
  bool within = false;  // did a call begin on one code and end on the other?
  for (int64_t steps = 1; !step.report().quick_code.changed; steps *= 2) {
    const int64_t before = step.report().quick_code.steps;
    step.run_steps(steps, {{kStep, 0}});
    within = step.report().quick_code.changed && step.report().quick_code.steps > before;
  }
  soon.join();
  EXPECT_TRUE(within);
}

TEST(QuickStart, WhatIsNoLongerNeededIsNotCompiledAndLeavesNoCode) {
  const Machine slow;
  RoutineReport begun;
  {
    Context ctx = slow.context();
    Routine step = ctx.compile(model());
    step.run({{kStep, 0}});
    begun = step.report();
    while (slow.compiler.calls("well") == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }  // waits for nobody who says go()
  EXPECT_TRUE(slow.files("build.").empty());
  EXPECT_FALSE(is_kept(begun));
  EXPECT_EQ(slow.files(".begun").size(), 1u);
  EXPECT_NE(texts_of(begun), "") << "the text may still be looked at; it is not taken for code";

  slow.compiler.go();  // the next one waits for the better code
  Context next = slow.context();
  const RoutineReport report = next.compile(model()).report();
  EXPECT_FALSE(report.quick_code.used);
  EXPECT_FALSE(report.from_cache);
  Context last = slow.context();
  EXPECT_TRUE(last.compile(model()).report().from_cache);
}

TEST(QuickStart, AProcessThatEndsDoesNotWait) {
  GTEST_FLAG_SET(death_test_style, "fast");  // the child has the folders of this process
  const Machine slow;
  EXPECT_EXIT(
      {
        auto* never_freed = new Context(slow.context());
        auto* step = new Routine(never_freed->compile(model()));
        step->run({{kStep, 0}});
        while (slow.compiler.calls("well") == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::exit(slow.files("build.").empty() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_TRUE(slow.files("build.").empty());
  EXPECT_EQ(slow.files(".so").size(), 1u) << "that of the self-test";
}

TEST(QuickStart, IfTheBetterCodeCannotBeCompiledTheOtherOneStays) {
  const Machine slow, other;
  slow.compiler.fail(), slow.compiler.go(), other.compiler.go();
  Context ctx = slow.context(), whole = other.context(false);
  Routine step = ctx.compile(model()), same = whole.compile(model());
  step.run_steps(3, {{kStep, 0}}), same.run_steps(3, {{kStep, 0}});
  step.finish_compiling();
  step.run_steps(3, {{kStep, 3}}), same.run_steps(3, {{kStep, 3}});
  const QuickCode quick = step.report().quick_code;
  EXPECT_FALSE(quick.changed);
  EXPECT_CONTAINS(quick.problem, "the C compiler failed");
  EXPECT_EQ(weights(ctx), weights(whole));
}

TEST(QuickStart, ProgramsThatAreEqualShareTheirCode) {
  const Machine slow;
  Context ctx = slow.context(), other = slow.context();
  Routine step = ctx.compile(model());
  const int quickly = slow.compiler.calls("quick");
  Routine same = other.compile(model());
  EXPECT_TRUE(same.report().quick_code.used);
  slow.compiler.go();
  step.finish_compiling(), same.finish_compiling();
  EXPECT_TRUE(step.report().quick_code.changed);
  EXPECT_TRUE(same.report().quick_code.changed);
  EXPECT_EQ(slow.compiler.calls("quick"), quickly);
  EXPECT_EQ(slow.compiler.calls("well"), 1);
}

TEST(QuickStart, TheTextIsInTheFolderOfTheProcessIfTheCacheTakesNone) {
  Machine slow;
  std::ofstream(slow.folder += "/file") << "in the place of a folder";
  Context ctx = slow.context();
  Routine step = ctx.compile(model());
  EXPECT_TRUE(step.report().quick_code.used);
  EXPECT_CONTAINS(slow.compiler.quickly(), texts_of(step.report()));
  slow.compiler.go();
  step.finish_compiling();
  EXPECT_TRUE(step.report().quick_code.changed);
  EXPECT_CONTAINS(slow.compiler.quickly(), texts_of(step.report()));
}

TEST(QuickStart, TheCacheMayBeClearedMeanwhile) {
  const Machine slow;
  Context ctx = slow.context();
  Routine step = ctx.compile(model());
  const string text = texts_of(step.report());
  backend::KernelCache(slow.folder).clear();
  EXPECT_TRUE(slow.files(".c").empty());
  slow.compiler.go();
  step.finish_compiling();
  EXPECT_TRUE(step.report().quick_code.changed);
  EXPECT_EQ(texts_of(step.report()), text);
  EXPECT_TRUE(is_kept(step.report()));
}

TEST(QuickStart, PaysIfTheCompilerOptimisesAndTakesLong) {
  struct Row {
    std::vector<string> flags;
    double milliseconds;
    bool pays;
  };
  const cc::CompilerOptions usual;
  auto with = [&](const string& flag) {
    std::vector<string> out = usual.flags;
    out.push_back(flag);
    return out;
  };
  const std::vector<Row> rows = {
      {usual.flags, 5000, true}, {usual.flags, 500, false}, {with("-O0"), 5000, false},
      {with("-g"), 5000, true},  {with("-O2"), 5000, true}, {{"-std=gnu99"}, 5000, false},
  };
  for (const Row& row : rows) {
    cc::CompilerOptions options;
    options.flags = row.flags;
    const codegen::Units units{std::vector<string>(size_t(processors().usable()), ""),
                               row.milliseconds * processors().usable()};
    EXPECT_EQ(cc::pays_to_start_quickly(units, options, kLongCompilation), row.pays)
        << row.flags.back() << " " << row.milliseconds;
  }
}

}  // namespace
}  // namespace caravan
