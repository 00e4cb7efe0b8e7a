// Runs that meet trouble: signals, disks that fail, numbers that are not finite, files that are something else. What
// was computed is kept, what is said is true, and a good file is never replaced by a worse one.
#include <gtest/gtest.h>

#ifdef CARAVAN_COMMAND
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
#include <thread>

#include "caravan/data/safetensors.h"
#include "caravan/data/sha256.h"
#include "command.h"

namespace {

using namespace caravan;

const Arguments kEndless = {"train", "moons", "--epochs", "1000000", "--quiet"};

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Runs : public Command {
 protected:
  string at(const string& name) const { return folder_ + "/" + name; }
  string file(const string& name) const { return content(at(name)); }
  int64_t step_of(const string& name) const { return std::stoll(data::read_safetensors(at(name)).metadata.at("step")); }

  // The command, once it listens to signals.
  pid_t started(const Arguments& arguments, const Arguments& environment = {}) const {
    const pid_t child = start(Arguments{CARAVAN_COMMAND} + arguments, environment);
    wait_until_caught(child, SIGINT);
    return child;
  }
  Outcome stopped(pid_t child, int signal) const {
    kill(child, signal);
    return ended(child);
  }
  void expect_refused(const Arguments& arguments, const string& phrase, const Arguments& environment = {}) const {
    // A command that waits for ever fails the test, and does not hang it.
    const Outcome o = run_program(Arguments{"/usr/bin/timeout", "60", CARAVAN_COMMAND} + arguments, environment);
    EXPECT_EQ(o.code, 2) << joined(arguments) << "\n" << o.err;
    EXPECT_CONTAINS(o.err, phrase);
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_EQ(o.out, "") << joined(arguments);
  }
  // The one file in the user's own folder of runs that could not be saved where they should be.
  string rescued() const {
    string out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(at(".local/state/caravan/runs")))
      if (entry.is_regular_file()) out = out.empty() ? entry.path().string() : "more than one";
    return out;
  }
  Arguments parts() const {
    Arguments out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
      if (entry.path().extension() == ".part") out.push_back(entry.path());
    return out;
  }
  // A copy of a checkpoint with a change, and the checksum that it then has.
  void forge(const string& from, const string& to, const auto& change) const {
    data::Tensors tensors = data::read_safetensors(at(from));
    change(tensors);
    tensors.metadata.erase("sha256");
    tensors.metadata["sha256"] = data::sha256(data::safetensors_content(tensors));
    data::write_safetensors(at(to), tensors);
  }
  data::StoredType type_of(const string& name, const string& state) const {
    return data::read_safetensors(at(name)).find(state)->type;
  }
};

// No file of the process can grow beyond this: a full disk that needs no rights.
void limit_files(pid_t process, rlim_t bytes) {
  const rlimit limit{bytes, bytes};
  ASSERT_EQ(prlimit(process, RLIMIT_FSIZE, &limit, nullptr), 0);
}
constexpr rlim_t kLessThanAModel = 2000;  // and more than what is said

TEST_F(Runs, EverySignalThatAsksToStopSaves) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Outcome o = stopped(started(kEndless + Arguments{"--save", "model"}), signal);
    EXPECT_EQ(o.code, 128 + signal) << o.err;
    EXPECT_CONTAINS(o.err, "to go on: caravan train moons --resume model --save model\n");
    const int64_t step = step_of("model");
    EXPECT_CONTAINS(o.err, "stopped after step " + std::to_string(step) + " of ");
    std::filesystem::remove(at("model"));
  }
}

// `timeout` signals the program and then its group; a terminal that is closed is told by the shell and by the kernel.
// Of two signals that are sent at once the kernel may deliver either first, to any thread.
TEST_F(Runs, OneWishToStopMayComeAsSeveralSignals) {
  for (int round = 0; round < 3; ++round) {
    const pid_t child = started(kEndless + Arguments{"--save", "model"});
    for (int i = 0; i < 20; ++i) kill(child, SIGTERM), kill(child, SIGHUP), usleep(1000);
    const int code = ended(child).code;
    EXPECT_TRUE(code == 128 + SIGTERM || code == 128 + SIGHUP) << code;
    EXPECT_GT(step_of("model"), 0) << "it was saved: no signal ended the program at once";
    std::filesystem::remove(at("model"));
  }
}

TEST_F(Runs, ASecondCtrlCEndsAtOnce) {
  // One step of this takes the interpreter far longer than the test waits.
  const pid_t child =
      started({"train", "mnist-conv", "--batch", "5000", "--device", "interp", "--quiet", "--save", "model"});
  kill(child, SIGINT);
  usleep(1'000'000);
  EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "the first one waits for the end of a step";
  const Outcome o = stopped(child, SIGINT);
  EXPECT_EQ(o.code, 130);
  EXPECT_EQ(o.err.find("stopped after"), string::npos) << o.err;
  EXPECT_FALSE(exists(at("model")));
}

TEST_F(Runs, NohupIsHeeded) {
  const pid_t child =
      start(Arguments{"/usr/bin/env", "nohup", CARAVAN_COMMAND} + kEndless + Arguments{"--save", "model"});
  wait_until_caught(child, SIGINT);
  kill(child, SIGHUP);
  usleep(500'000);
  EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "SIGHUP is ignored";
  EXPECT_EQ(stopped(child, SIGTERM).code, 143);
  EXPECT_GT(step_of("model"), 0);
}

// The reader of the output goes with the terminal, so that the next line meets a broken pipe.
TEST_F(Runs, OutputThatNobodyReadsIsNoReasonToLoseARun) {
  const string command = string(CARAVAN_COMMAND) + " train moons --epochs 10000 --save model";
  const Outcome piped = run_program({"/bin/bash", "-c", command + " | true; exit ${PIPESTATUS[0]}"});
  EXPECT_EQ(piped.code, 128 + SIGPIPE) << piped.err;
  EXPECT_CONTAINS(piped.err, "to go on: ");
  EXPECT_GT(step_of("model"), 0);
  std::filesystem::remove(at("model"));

  const Outcome both = run_program({"/bin/bash", "-c", command + " 2>&1 | true; exit ${PIPESTATUS[0]}"});
  EXPECT_EQ(both.code, 128 + SIGPIPE);
  EXPECT_GT(step_of("model"), 0);
}

TEST_F(Runs, ASaveThatFailsLeavesTheOldFileWhole) {
  good({"train", "moons", "--steps", "100", "--save", "model", "--quiet"});
  const string before = file("model");
  ASSERT_GT(before.size(), kLessThanAModel);
  const pid_t child = started(kEndless + Arguments{"--save", "model"});
  limit_files(child, kLessThanAModel);  // the save fails when some of it is written
  const Outcome o = stopped(child, SIGINT);
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_EQ(file("model"), before);
  EXPECT_EQ(parts(), Arguments{});
  EXPECT_CONTAINS(o.err, "`model` could not be written: File too large.");
  EXPECT_CONTAINS(o.err, "no place took the run, so it is not kept.");
  EXPECT_EQ(o.err.find("to go on"), string::npos) << o.err;
}

TEST_F(Runs, AFolderThatIsGoneCostsNothing) {
  for (const bool finishes : {false, true}) {
    const string epochs = finishes ? "5000" : "1000000";
    const pid_t child = started({"train", "moons", "--epochs", epochs, "--json", "--save", "gone/model"});
    std::filesystem::remove_all(at("gone"));
    if (!finishes) kill(child, SIGTERM);
    const Outcome o = ended(child);
    EXPECT_EQ(o.code, 3) << o.err;
    const string path = rescued();
    ASSERT_NE(path, "");
    EXPECT_CONTAINS(o.err, "`gone/model` cannot be written: No such file or directory.");
    EXPECT_CONTAINS(o.err, "the run is kept in " + path + " instead");
    EXPECT_CONTAINS(o.err, "to go on: caravan train moons --resume " + path + " --save " + path + "\n");
    EXPECT_EQ(std::filesystem::status(std::filesystem::path(path).parent_path()).permissions(),
              std::filesystem::perms(0700));
    EXPECT_EQ(field(o.last_line(), "saved"), "\"" + path + "\"");
    const string step = data::read_safetensors(path).metadata.at("step");
    EXPECT_EQ(field(o.last_line(), "steps"), step);
    EXPECT_EQ(field(o.last_line(), "end"), finishes ? "\"finished\"" : "\"interrupted\"");
    good({"train", "moons", "--epochs", epochs, "--until", step, "--save", "never", "--quiet"});
    EXPECT_EQ(content(path), file("never")) << "what was kept is the run as it was";
    std::filesystem::remove_all(at(".local"));
  }
}

// `condition` within half a minute.
bool comes_true(const auto& condition) {
  for (int hundredths = 0; hundredths < 3000; ++hundredths, usleep(10'000))
    if (condition()) return true;
  return false;
}

TEST_F(Runs, ASaveThatFailsMeanwhileIsToldOnceAndMadeUpFor) {
  const pid_t child = started(kEndless + Arguments{"--save", "gone/model", "--save-every", "0.02"});
  EXPECT_TRUE(comes_true([&] { return exists(at("gone/model")); })) << "before the end";
  std::filesystem::rename(at("gone"), at("moved"));
  EXPECT_TRUE(comes_true([&] { return file("stderr").find("a copy is kept in ") != string::npos; }));
  const string path = rescued();
  EXPECT_CONTAINS(file("stderr"), "caravan: a copy is kept in " + path + "\n");
  const int64_t step = std::stoll(data::read_safetensors(path).metadata.at("step"));
  EXPECT_TRUE(comes_true([&] { return std::stoll(data::read_safetensors(path).metadata.at("step")) > step; }))
      << "the copy is kept up";
  std::filesystem::create_directory(at("gone"));
  EXPECT_TRUE(comes_true([&] { return exists(at("gone/model")) && !exists(path); }))
      << "the copy goes when it is not needed";
  const Outcome o = stopped(child, SIGINT);
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_GT(step_of("gone/model"), step);
  EXPECT_LE(std::count(o.err.begin(), o.err.end(), '\n'), 5) << "each problem once, not at every save\n" << o.err;
}

TEST_F(Runs, WithoutAHomeTheRescueIsTemporary) {
  std::filesystem::create_directory(at("temporary"));
  for (const bool there : {true, false}) {
    const pid_t child = started(kEndless + Arguments{"--save", "gone/model"},
                                {"HOME=", "TMPDIR=" + at(there ? "temporary" : "absent")});
    std::filesystem::remove_all(at("gone"));
    const Outcome o = stopped(child, SIGINT);
    EXPECT_EQ(o.code, 3);
    std::smatch match;
    ASSERT_TRUE(std::regex_search(o.err, match, std::regex("the run is kept in (\\S+) instead"))) << o.err;
    const string path = match[1];
    EXPECT_TRUE(path.starts_with(there ? at("temporary/moons-") : "/tmp/moons-")) << path;
    EXPECT_TRUE(exists(path));
    std::filesystem::remove_all(std::filesystem::path(path).parent_path());
  }
}

TEST_F(Runs, EveryErrorIsToldAndTheResultsAreShown) {
  const pid_t child =
      started({"train", "moons", "--epochs", "5000", "--quiet", "--json", "--save", "model", "--plot", "pictures"});
  limit_files(child, kLessThanAModel);
  const Outcome o = ended(child);
  EXPECT_EQ(o.code, 3);
  for (const char* name : {"`model`", "`pictures/learning_rate.svg`"})
    EXPECT_CONTAINS(o.err, string(name) + " could not be written: File too large.");
  EXPECT_EQ(field(o.out, "steps"), "400000");
  EXPECT_EQ(field(o.out, "saved"), "null");
  EXPECT_GT(number(o.out, "train_accuracy"), 0.9);
}

TEST_F(Runs, AFullFilesystemIsMetBeforeTheRunOrTheRunIsKeptElsewhere) {
  std::filesystem::create_directory(at("small"));
  const string prelude = "mount -t tmpfs -o size=64k none small && touch mounted && ";
  auto on_small = [&](const Arguments& arguments) {
    return start(
        Arguments{"/usr/bin/env", "unshare", "-m", "/bin/sh", "-c", prelude + "exec \"$@\"", "sh", CARAVAN_COMMAND} +
        arguments);
  };
  const Outcome early =
      ended(on_small({"train", "mnist-mlp", "--steps", "3", "--device", "interp", "--quiet", "--save", "small/model"}));
  if (!exists(at("mounted"))) GTEST_SKIP() << "only root may mount a small filesystem";
  EXPECT_EQ(early.code, 2) << early.err;
  EXPECT_CONTAINS(early.err, "--save: `small/model` cannot be written: No space left on device (");
  EXPECT_EQ(early.out, "");

  const pid_t child = on_small({"train", "circle", "--steps", "100000000", "--quiet", "--save", "small/model"});
  wait_until_runs(child, CARAVAN_COMMAND);  // the shell before it catches the signal as well
  wait_until_caught(child, SIGINT);
  std::ofstream("/proc/" + std::to_string(child) + "/root" + at("small/rest")) << string(70'000, 'x');
  const Outcome late = stopped(child, SIGINT);
  EXPECT_EQ(late.code, 3) << late.err;
  EXPECT_CONTAINS(late.err, "No space left on device");
  EXPECT_CONTAINS(late.err, "the run is kept in " + rescued() + " instead");
}

TEST_F(Runs, AFileThatCannotBeIsRefusedBeforeTheRun) {
  good({"train", "linear", "--steps", "2", "--quiet", "--save", string(255, 'a')});
  EXPECT_EQ(data::read_safetensors(at(string(255, 'a'))).metadata.at("step"), "2");
  std::filesystem::remove(at(string(255, 'a')));
  const Arguments train = {"train", "moons", "--device", "interp", "--epochs", "50", "--plot", "pictures", "--save"};
  expect_refused(train + Arguments{string(256, 'a')}, "File name too long");
  expect_refused(train + Arguments{"/proc/model"}, "--save: `/proc/model` cannot be written: ");
  expect_refused(train + Arguments{"/dev/null"}, "--save `/dev/null` is not a file that can be replaced");
  const Outcome small =
      run_program({"/bin/bash", "-c", string("ulimit -f 1; exec ") + CARAVAN_COMMAND + joined(train) + " model"});
  EXPECT_EQ(small.code, 2) << small.err;
  EXPECT_CONTAINS(small.err, "--save: `model` cannot be written: File too large (");
  EXPECT_FALSE(exists(at("pictures")));
  EXPECT_EQ(parts(), Arguments{});
}

TEST_F(Runs, WhatDivergedIsNeitherSavedNorSaidToBe) {
  auto diverging = [&] {
    return started({"train", "linear", "--lr", "1e9", "--steps", "1000000000", "--quiet", "--save", "model"});
  };
  auto wait = [&] { usleep(300'000); };
  pid_t child = diverging();
  wait();
  Outcome o = stopped(child, SIGINT);
  EXPECT_EQ(o.code, 1) << o.err;
  EXPECT_CONTAINS(o.err, "training diverged before it was stopped after step ");
  EXPECT_CONTAINS(o.err, "It was not saved; there is no file of this run.");
  EXPECT_EQ(o.err.find("to go on"), string::npos) << o.err;
  EXPECT_FALSE(exists(at("model")) || exists(at(".local")));

  good({"train", "linear", "--steps", "70", "--quiet", "--save", "model"});
  const string before = file("model");
  child = diverging();
  wait();
  o = stopped(child, SIGINT);
  EXPECT_EQ(o.code, 1);
  EXPECT_CONTAINS(o.err, "It was not saved; `model` is what it was before the run.");
  EXPECT_EQ(file("model"), before);
}

// The loss of a step is that of the weights before it.
TEST_F(Runs, WeightsThatAreNotFiniteReplaceNothing) {
  good({"train", "moons", "--steps", "50", "--quiet", "--save", "model"});
  const string before = file("model");
  for (const Arguments& save : {Arguments{"--save", "model"}, Arguments{}}) {
    const Outcome o = run(Arguments{"train", "moons", "--lr", "3e38", "--steps", "1", "--quiet", "--json"} + save);
    EXPECT_EQ(o.code, 1) << o.err;
    EXPECT_CONTAINS(o.err, "training diverged: the state `");
    EXPECT_TRUE(std::isfinite(number(o.out, "loss")));
    EXPECT_EQ(field(o.out, "saved"), "null");
  }
  EXPECT_EQ(file("model"), before);
}

TEST_F(Runs, AModelThatIsNotFiniteIsToldApart) {
  good({"train", "moons", "--steps", "50", "--until", "20", "--quiet", "--save", "model"});
  forge("model", "nan", [](data::Tensors& t) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(t.list.at("w2").elements.data(), &nan, sizeof nan);
  });
  const Outcome o = run({"eval", "nan", "--json"});
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(o.err,
            "caravan: nan is of a model that diverged: the state `w2` has nan, so these results mean nothing.\n");
  EXPECT_EQ(field(o.last_line(), "steps"), "20");
  expect_refused({"train", "moons", "--resume", "nan"}, "nan cannot be continued: the state `w2` has nan.");
}

TEST_F(Runs, GoOnWithTheDeviceTheyWereBegunWith) {
  good({"train", "moons", "--device", "cpu", "--steps", "200", "--until", "100", "--quiet", "--save", "cpu"});
  const string before = file("cpu");
  const Arguments going_on = {"train", "moons", "--resume", "cpu", "--save", "cpu", "--quiet"};
  std::filesystem::create_directory(at("empty"));
  expect_refused(going_on, "cpu was computed on cpu, and here the run would be interpreted because ",
                 {"PATH=/nowhere", "CARAVAN_CACHE=" + at("empty")});
  expect_refused(going_on,
                 "cpu was computed on cpu, and CARAVAN_DEVICE asks for interp: another device rounds differently",
                 {"CARAVAN_DEVICE=interp"});
  EXPECT_EQ(file("cpu"), before);

  forge("cpu", "old", [](data::Tensors& t) { t.metadata.erase("device"), t.metadata.erase("precision"); });
  EXPECT_EQ(run({"train", "moons", "--resume", "old", "--quiet"}, {"CARAVAN_DEVICE=interp"}).code, 0)
      << "files had no device once";

  good(going_on + Arguments{"--device", "interp"});
  EXPECT_EQ(data::read_safetensors(at("cpu")).metadata.at("device"), "interp");
  EXPECT_EQ(type_of("cpu", "w1"), data::StoredType::f32) << "a run keeps its precision in the file";

  good({"train", "moons", "--device", "interp", "--steps", "60", "--save", "whole", "--quiet"});
  good({"train", "moons", "--device", "interp", "--steps", "60", "--until", "31", "--save", "part", "--quiet"});
  EXPECT_EQ(type_of("part", "w1"), data::StoredType::f64);
  const Outcome o = good({"train", "moons", "--resume", "part", "--save", "part", "--quiet", "--json"});
  EXPECT_EQ(field(o.out, "device"), "\"interp\"");
  EXPECT_CONTAINS(o.err,
                  "part was computed by the interpreter, so the run goes on with it; --device cpu changes that.");
  EXPECT_EQ(file("part"), file("whole"));
  EXPECT_EQ(
      field(good({"train", "moons", "--resume", "part", "--steps", "70", "--quiet", "--json", "--device", "cpu"}).out,
            "device"),
      "\"cpu\"");
}

TEST_F(Runs, NamesFromFilesReachNoTerminal) {
  good({"train", "moons", "--steps", "5", "--quiet", "--save", "model"});
  const string title = "\x1b]0;gotcha\x07\u202e", spelled = "\\x1b]0;gotcha\\x07\\u202e";
  auto expect_spelled = [&](const Arguments& arguments, const string& phrase) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2);
    EXPECT_CONTAINS(o.err, phrase);
    EXPECT_EQ((o.out + o.err).find_first_of("\x1b\x07"), string::npos) << o.err;
    EXPECT_EQ((o.out + o.err).find("\u202e"), string::npos) << o.err;
  };
  forge("model", "named", [&](data::Tensors& t) { t.list[title] = t.list.at("w1"); });
  expect_spelled({"train", "moons", "--resume", "named"}, "unexpected (1): " + spelled);
  for (const char* key : {"format", "recipe", "step", "lr", "optimizer"}) {
    forge("model", "said", [&](data::Tensors& t) { t.metadata[key] = title; });
    expect_spelled({"train", "moons", "--resume", "said"}, spelled);
  }
  forge("model", "device", [&](data::Tensors& t) { t.metadata["device"] = title; });
  expect_spelled({"train", "moons", "--resume", "device"}, "device was computed on " + spelled);
  expect_spelled({"eval", title}, "`" + spelled + "` cannot be read");
  expect_spelled({"parity", "named"}, "it is not a parity fixture");
}

TEST_F(Runs, WhatIsNoFileIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  for (const Arguments& use : {Arguments{"eval"}, Arguments{"train", "moons", "--resume"},
                               Arguments{"export", "--c", "out.c"}, Arguments{"parity"}, Arguments{"serve"}}) {
    expect_refused(use + Arguments{"pipe"}, "`pipe` cannot be read: it is a FIFO, not a regular file.");
    expect_refused(use + Arguments{"/dev/zero"}, "`/dev/zero` cannot be read: it is a device, not a regular file.");
    expect_refused(use + Arguments{"."}, "`.` cannot be read: it is a folder, not a regular file.");
  }
}

}  // namespace
#endif
