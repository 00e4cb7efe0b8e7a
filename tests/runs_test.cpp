// Runs that meet trouble: signals, disks that fail, numbers that are not finite, files that are something else. What was
// computed is kept, what is said is true, and a good file is never replaced by a worse one.
#include <gtest/gtest.h>

#ifdef CARAVAN_COMMAND
#include <sys/stat.h>

#include <csignal>

#include "caravan/data/safetensors.h"
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

  Outcome good(const Arguments& arguments) const {
    const Outcome out = run(arguments);
    EXPECT_EQ(out.code, 0) << joined(arguments) << "\n" << out.err;
    return out;
  }
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
};

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
TEST_F(Runs, OneWishToStopMayComeAsSeveralSignals) {
  for (int round = 0; round < 3; ++round) {
    const pid_t child = started(kEndless + Arguments{"--save", "model"});
    for (int i = 0; i < 20; ++i) kill(child, SIGTERM), kill(child, SIGHUP), usleep(1000);
    EXPECT_EQ(ended(child).code, 143);
    EXPECT_GT(step_of("model"), 0);
    std::filesystem::remove(at("model"));
  }
}

TEST_F(Runs, ASecondCtrlCEndsAtOnce) {
  // One step of this takes the interpreter far longer than the test waits.
  const pid_t child = started({"train", "mnist-conv", "--batch", "5000", "--device", "interp", "--quiet", "--save", "model"});
  kill(child, SIGINT);
  usleep(1'000'000);
  EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "the first one waits for the end of a step";
  const Outcome o = stopped(child, SIGINT);
  EXPECT_EQ(o.code, 130);
  EXPECT_EQ(o.err.find("stopped after"), string::npos) << o.err;
  EXPECT_FALSE(exists(at("model")));
}

TEST_F(Runs, NohupIsHeeded) {
  const pid_t child = start(Arguments{"/usr/bin/env", "nohup", CARAVAN_COMMAND} + kEndless + Arguments{"--save", "model"});
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

}  // namespace
#endif
