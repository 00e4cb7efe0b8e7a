// The command on several devices: workers of one process, and processes that mpirun has started.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#ifdef CARAVAN_COMMAND
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "caravan/backend/communicator.h"
#include "caravan/backend/mpi/mpi.h"
#include "caravan/data/digits.h"
#include "caravan/data/idx.h"
#include "caravan/data/safetensors.h"
#include "command.h"

namespace {

using namespace caravan;

class Many : public Command {
 protected:
  void SetUp() override {
    Command::SetUp();
    if (data_.empty()) make_data();
  }
  // Little data, so that what follows training is quick.
  static void make_data() {
    data_ = scratch_ + "/data";
    std::filesystem::create_directories(data_);
    const data::Digits drawn = data::drawn_digits(96, 20, 5);
    data::write_idx(data_ + "/train-images-idx3-ubyte", drawn.train.images.reshaped(parse_shape("96|28,28")));
    data::write_idx(data_ + "/train-labels-idx1-ubyte", drawn.train.labels);
    data::write_idx(data_ + "/t10k-images-idx3-ubyte", drawn.test.images.reshaped(parse_shape("20|28,28")));
    data::write_idx(data_ + "/t10k-labels-idx1-ubyte", drawn.test.labels);
    std::ofstream names(data_ + "/names.txt"), play(data_ + "/input.txt");
    for (int k = 0; k < 300; ++k) {
      names << char('a' + k % 26) << "nn" << char('a' + k * 7 % 26) << "e" << char('a' + k / 26) << "\n";
      play << "Speaker " << k % 7 << ":\nSo it is said, and said again.\n\n";
    }
  }
  Arguments train(const string& recipe, const Arguments& more) const {
    Arguments out = {"train", recipe, "--debug-kernels", "--json", "--threads", "2"};
    if (recipe.starts_with("mnist") || recipe.starts_with("names") || recipe.starts_with("shakespeare"))
      out.insert(out.end(), {"--data", data_});
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  Arguments with(Arguments how, const Arguments& more) const {
    how.insert(how.end(), more.begin(), more.end());
    return how;
  }
  // The largest difference of a state, as a part of its norm.
  static double difference(const string& a, const string& b) {
    const data::Tensors first = data::read_safetensors(a), second = data::read_safetensors(b);
    EXPECT_EQ(first.list.size(), second.list.size());
    double out = 0;
    for (const auto& [name, stored] : first.list) {
      const Array x = first.array(name), y = second.array(name);
      double norm = 1e-12, apart = 0;
      for (int64_t k = 0; k < x.size(); ++k)
        norm += x.at(k) * x.at(k), apart += (x.at(k) - y.at(k)) * (x.at(k) - y.at(k));
      out = std::max(out, std::sqrt(apart / norm));
    }
    return out;
  }
  // All of a checkpoint, but for what it keeps of --parts and --split-states.
  static string without_wishes(const string& path) {
    data::Tensors out = data::read_safetensors(path);
    for (const char* key : {"parts", "split_states", "sha256"}) out.metadata.erase(key);
    return data::safetensors_content(out);
  }
  static string kept(const string& path, const string& key) {
    const auto metadata = data::read_safetensors(path).metadata;
    return metadata.contains(key) ? metadata.at(key) : "none";
  }
  // One device that adds up in as many parts computes every bit that the devices compute.
  void expect_same_bits(const string& recipe, const Arguments& how, const std::vector<string>& devices) const {
    for (const string& n : devices) {
      good(train(recipe, with(how, {"--parts", n, "--save", folder_ + "/one"})));
      const Outcome many = good(train(recipe, with(how, {"--devices", n, "--save", folder_ + "/many"})));
      EXPECT_EQ(without_wishes(folder_ + "/one"), without_wishes(folder_ + "/many")) << recipe << " on " << n;
      EXPECT_EQ(number(many.last_line(), "devices"), std::stod(n));
    }
  }
  // One device that adds up as it likes differs by roundings.
  void expect_close(const string& recipe, const Arguments& how, const string& devices) const {
    const Outcome one = good(train(recipe, with(how, {"--save", folder_ + "/one"}))),
                  many = good(train(recipe, with(how, {"--devices", devices, "--save", folder_ + "/many"})));
    const double loss = number(one.last_line(), "loss");
    EXPECT_NEAR(number(many.last_line(), "loss"), loss, 1e-5 * std::abs(loss)) << recipe << " on " << devices;
    EXPECT_LT(difference(folder_ + "/one", folder_ + "/many"), 1e-5) << recipe << " on " << devices;
  }

  static bool has_mpi() { return std::system("mpirun --version >/dev/null 2>&1") == 0; }
  static Arguments mpirun(int processes) {
    return {"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun", "--oversubscribe",
            "-n",           std::to_string(processes)};
  }
  Arguments under_mpi(int processes, const Arguments& arguments) const {
    Arguments out = mpirun(processes);
    out.push_back(CARAVAN_COMMAND);
    out.insert(out.end(), arguments.begin(), arguments.end());
    return out;
  }
  // A test of Rank as several processes.
  static Arguments by_ranks(int processes, const string& test) {
    Arguments out = mpirun(processes);
    const string self = std::filesystem::read_symlink("/proc/self/exe").string();
    out.insert(out.end(), {self, "--gtest_also_run_disabled_tests", "--gtest_filter=Rank.DISABLED_" + test});
    return out;
  }

  static inline string data_;
};

TEST_F(Many, RecipesComputeTheBitsOfOneDevice) {
  expect_same_bits("linear", {"--steps", "50"}, {"2"});
  expect_same_bits("moons", {"--steps", "50", "--batch", "20"}, {"4"});
  expect_same_bits("circle", {"--steps", "50", "--batch", "4"}, {"2"});
  expect_same_bits("multiply-small", {"--steps", "50", "--batch", "4"}, {"2"});
  expect_same_bits("mnist-mlp", {"--steps", "8", "--batch", "12"}, {"3"});
  expect_same_bits("mnist-conv", {"--steps", "2", "--batch", "6"}, {"3"});
  expect_same_bits("names-bigram", {"--steps", "50", "--batch", "12"}, {"3"});
  expect_same_bits("names-mlp-bn", {"--steps", "20", "--batch", "12"}, {"4"});
  expect_same_bits("names-transformer", {"--steps", "2", "--batch", "6"}, {"2"});
}
TEST_F(Many, WithoutPartsOnlyRoundingsDiffer) {
  expect_close("moons", {"--steps", "50", "--batch", "20"}, "2");
  expect_close("mnist-mlp", {"--steps", "8", "--batch", "12"}, "3");
  expect_close("names-mlp-bn", {"--steps", "20", "--batch", "12"}, "2");
}

// The parts are kept in the file, so that it goes on on any devices with the bits that it was begun with.
TEST_F(Many, ARunThatGoesOnKeepsItsParts) {
  const Arguments how = {"--steps", "40", "--batch", "24", "--parts", "12"};
  const string whole = folder_ + "/whole", half = folder_ + "/half", end = folder_ + "/end";
  const auto parts = [](const string& path) { return kept(path, "parts"); };
  const auto go_on = [&](const Arguments& more) {
    return train("moons", with({"--resume", half, "--save", end}, more));
  };
  good(train("moons", with(how, {"--save", whole})));
  good(train("moons", with(how, {"--devices", "2", "--until", "20", "--save", half})));
  EXPECT_EQ(parts(half), "12");
  for (const Arguments& more : {Arguments{}, {"--devices", "3"}, {"--devices", "2", "--parts", "12"}}) {
    EXPECT_EQ(good(go_on(more)).err, "");
    EXPECT_EQ(content(whole), content(end)) << joined(more);
  }
  if (has_mpi()) {
    std::filesystem::remove(end);
    const Outcome o = run_program(under_mpi(4, go_on({})));
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(content(whole), content(end)) << "in four processes";
  }
  EXPECT_CONTAINS(run(go_on({"--devices", "5"})).err,
                  "/half was begun with --parts 12, which is not a multiple of the 5");
  const string otherwise = good(go_on({"--devices", "4", "--parts", "4"})).err;
  EXPECT_CONTAINS(otherwise, "/half was begun with --parts 12; with --parts 4 from here on, the run ends with other");
  EXPECT_EQ(parts(end), "4");
  EXPECT_NE(content(whole), content(end));

  good(train("moons", {"--steps", "40", "--batch", "24", "--devices", "3", "--until", "20", "--save", half}));
  EXPECT_EQ(parts(half), "none");  // the file of one that asked for none goes on on any devices
  EXPECT_EQ(good(go_on({"--devices", "4"})).err, "");
  EXPECT_EQ(parts(end), "none");
  EXPECT_CONTAINS(good(go_on({"--parts", "3"})).err, "/half was begun without --parts; with --parts 3 from here on");
}

// A recipe that clips gradients exchanges more with --split-states, and rounds otherwise.
TEST_F(Many, ARunThatGoesOnKeepsDividedStates) {
  const Arguments how = {"--steps", "4", "--batch", "4", "--parts", "2"};
  const string whole = folder_ + "/whole", half = folder_ + "/half", end = folder_ + "/end";
  const auto go_on = [&](const Arguments& more) {
    return train("names-transformer", with({"--resume", half, "--save", end}, more));
  };
  good(train("names-transformer", with(how, {"--devices", "2", "--until", "2", "--save", half})));
  const double sent = number(good(go_on({"--devices", "2"})).last_line(), "bytes");
  EXPECT_EQ(kept(end, "split_states"), "none");
  const string undivided = without_wishes(end);
  good(go_on({"--devices", "2", "--split-states"}));  // which may also begin later
  EXPECT_EQ(kept(end, "split_states"), "1");

  good(train("names-transformer", with(how, {"--split-states", "--save", whole})));
  EXPECT_NE(without_wishes(whole), undivided);
  good(train("names-transformer", with(how, {"--split-states", "--devices", "2", "--until", "2", "--save", half})));
  for (const Arguments& more : {Arguments{}, {"--devices", "2"}, {"--devices", "2", "--split-states"}}) {
    const Outcome o = good(go_on(more));
    EXPECT_EQ(o.err, "");
    if (!more.empty()) {
      EXPECT_GT(number(o.last_line(), "bytes"), sent) << joined(more);
    }
    EXPECT_EQ(content(whole), content(end)) << joined(more);
  }
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  std::filesystem::remove(end);
  const Outcome o = run_program(under_mpi(2, go_on({})));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_GT(number(o.last_line(), "bytes"), sent);
  EXPECT_EQ(content(whole), content(end)) << "in two processes";
}

TEST_F(Many, OptimiserStatesAreDividedWithoutChangingABit) {
  const Arguments how = {"--steps", "20", "--batch", "12"};
  good(train("names-mlp-bn", with(how, {"--devices", "2", "--save", folder_ + "/whole"})));
  good(train("names-mlp-bn", with(how, {"--devices", "2", "--split-states", "--save", folder_ + "/split"})));
  EXPECT_EQ(without_wishes(folder_ + "/whole"), without_wishes(folder_ + "/split"));
  const string out = good({"inspect", "names-mlp-bn", "--stage", "plan", "--devices", "2", "--split-states"}).out;
  EXPECT_CONTAINS(out, "reduce_scatter over data");
  EXPECT_CONTAINS(out, "all_gather over data");
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  const Outcome o =
      run_program(under_mpi(2, train("names-mlp-bn", with(how, {"--split-states", "--save", folder_ + "/processes"}))));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(content(folder_ + "/split"), content(folder_ + "/processes"));
}

TEST_F(Many, APlanForDevicesThatAreNotHere) {
  const string text = good({"plan", "moons", "--mesh", "data=80", "--estimate"}).out;
  EXPECT_CONTAINS(text, "moons on data=80: batches of 800, 10 for each device");
  EXPECT_CONTAINS(text, "Assumptions:");
  // Of recipes that train another network one example at a time, too.
  EXPECT_CONTAINS(good({"plan", "mnist-mlp", "--mesh", "data=2", "--estimate"}).out,
                  "mnist-mlp on data=2: batches of 2, 1 for each device");
  const Arguments slow = {"plan", "moons", "--mesh", "data=16", "--estimate", "--json", "--latency", "1000"};
  const string ring = good(slow).last_line(), tree = good(with(slow, {"--all-reduce", "tree"})).last_line();
  EXPECT_NEAR(number(ring, "exchanging_seconds"), 2 * 15e-3, 1e-4);
  EXPECT_NEAR(number(tree, "exchanging_seconds"), 2 * 4e-3, 1e-4);
  EXPECT_GT(number(ring, "step_seconds"), number(tree, "step_seconds"));
  EXPECT_CONTAINS(run({"plan", "moons", "--mesh", "data=16", "--batch", "40"}).err,
                  "--batch 40 is not a multiple of the 16 devices along `data`");
  for (const char* mesh : {"model=16", "data=4, model=4"})
    EXPECT_CONTAINS(run({"plan", "moons", "--mesh", mesh}).err,
                    "recipes place their batches on the axis `data`, and nothing on another");
  EXPECT_CONTAINS(run({"plan", "moons", "--mesh", "data=1000"}).err,
                  "1000 devices are more than the 800 points of moons");
}

TEST_F(Many, ABatchThatCannotBeDividedIsRefused) {
  const Outcome o = run({"train", "moons", "--devices", "3"});
  EXPECT_EQ(o.code, 2);
  EXPECT_CONTAINS(o.err, "batch axis 1 has size 10, which is not a multiple of 3 (the mesh is data=3); 9 and 12 are.");
  EXPECT_CONTAINS(run({"train", "moons", "--devices", "cpu:0,interp"}).err, "devices of one kind");
  EXPECT_CONTAINS(run({"train", "moons", "--devices", "0"}).err, "a run needs one at least");
  EXPECT_CONTAINS(run({"train", "moons", "--devices", "cpu:0,cpu:x"}).err,
                  "after the colon of `cpu:x` stands a number");
  EXPECT_CONTAINS(run_program({"/usr/bin/env", "PMI_SIZE=4", CARAVAN_COMMAND, "train", "moons"}).err,
                  "one of 4 processes that another MPI than Open MPI has started");
  EXPECT_CONTAINS(
      run_program({"/usr/bin/env", "SLURM_STEP_NUM_TASKS=4", "PMIX_RANK=1", CARAVAN_COMMAND, "train", "moons"}).err,
      "one of 4 processes that srun has started");
  EXPECT_CONTAINS(run_program({"/usr/bin/env", "PMIX_RANK=1", CARAVAN_COMMAND, "train", "moons"}).err,
                  "start them with the mpirun of Open MPI");
  const Outcome one_of_one = run_program({"/usr/bin/env", "SLURM_STEP_NUM_TASKS=1", "PMIX_RANK=0", CARAVAN_COMMAND,
                                          "inspect", "moons", "--stage", "plan"});
  EXPECT_CONTAINS(one_of_one.out, "One device");
  EXPECT_CONTAINS(run({"train", "moons", "--devices", "2", "--parts", "5"}).err,
                  "the axis `data` of the mesh data=2/5 has 2 devices and 5 parts");
}

TEST_F(Many, TheStagePlanShowsWhatDevicesExchange) {
  const string out = good({"inspect", "moons", "--stage", "plan", "--devices", "2"}).out;
  EXPECT_CONTAINS(out, "The mesh is data=2.");
  EXPECT_CONTAINS(out, "all_reduce over data: 7 values, 1352 bytes");
  EXPECT_CONTAINS(good({"inspect", "moons", "--stage", "plan"}).out, "One device");
}

TEST_F(Many, AProfileShowsHowLongADeviceWaits) {
  const string out = good({"profile", "moons", "--devices", "2", "--steps", "3", "--top", "0"}).out;
  EXPECT_CONTAINS(out, "all_reduce");
  EXPECT_CONTAINS(out, "wait");
  EXPECT_CONTAINS(out, "us of collectives, of which");
  const string end = good(train("moons", {"--steps", "50", "--batch", "20", "--devices", "2"})).last_line();
  EXPECT_GT(number(end, "waited_seconds"), 0);
  EXPECT_LE(number(end, "hidden_share"), 1);
}

TEST_F(Many, ProcessesComputeTheBitsOfWorkers) {
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  // With twelve parts each process sends 4056 bytes in a step, as two messages.
  for (const Arguments& how :
       {Arguments{"--steps", "40", "--batch", "48", "--parts", "12"}, Arguments{"--steps", "40", "--batch", "20"}}) {
    good(train("moons", with(how, {"--devices", "2", "--save", folder_ + "/workers"})));
    const Outcome o = run_program(under_mpi(2, train("moons", with(how, {"--save", folder_ + "/processes"}))));
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(number(o.last_line(), "devices"), 2);
    EXPECT_EQ(content(folder_ + "/workers"), content(folder_ + "/processes"));
  }
  // Any number of devices goes on from it.
  good(train("moons", {"--resume", folder_ + "/processes", "--steps", "60", "--save", folder_ + "/end"}));
}

TEST_F(Many, DevicesOfARunAreItsProcesses) {
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  const auto refused = [&](const Arguments& how) {
    const Outcome o = run_program(under_mpi(2, train("moons", how)));
    EXPECT_NE(o.code, 0);
    EXPECT_EQ(o.err.find("caravan: "), o.err.rfind("caravan: ")) << "said once: " << o.err;
    return o.err;
  };
  EXPECT_CONTAINS(refused({"--resume", folder_ + "/nowhere"}), "nowhere");
  EXPECT_CONTAINS(refused({"--devices", "1"}), "--devices `1` names 1 device, but mpirun has started 2 processes");
  EXPECT_CONTAINS(refused({"--devices", "cpu:0,cpu:1,cpu:2"}), "names 3 devices, but mpirun has started 2 processes");
  EXPECT_CONTAINS(refused({"--engine", "streams"}),
                  "the engine `streams` is for workers of one process, but mpirun has started 2 processes");
}

// What all processes refuse is said once, whether they have met or not; what one of them refuses, it says itself.
TEST_F(Many, ARefusalIsSaidOnce) {
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  const auto refused = [&](const Arguments& command) {
    const Outcome o = run_program(under_mpi(2, command));
    EXPECT_EQ(o.code, 2);
    EXPECT_EQ(o.err.find("caravan: "), o.err.rfind("caravan: ")) << "said once: " << o.err;
    return o.err;
  };
  for (const Arguments& command : {train("moons", {"--batch", "5"}),
                                   {"inspect", "moons", "--batch", "5", "--stage", "plan"},
                                   {"profile", "moons", "--batch", "5"}})
    EXPECT_CONTAINS(refused(command), "batch axis 1 has size 5, which is not a multiple of 2 (the mesh is data=2)");
  EXPECT_CONTAINS(refused(train("moons", {"--memory-limit", "1"})), "more than the limit of 1 bytes");
  EXPECT_CONTAINS(refused({"train", "moons", "--device", "cpu:7"}), "there is no `cpu:7`");
  EXPECT_CONTAINS(refused({"train", "moons", "--engine", "nccl", "--device", "cpu"}), "the engine `nccl` is for GPUs");
  EXPECT_CONTAINS(refused({"inspect", "moons", "--devices", "3", "--stage", "plan"}), "names 3 devices, but mpirun");
  EXPECT_CONTAINS(refused({"train", "moons", "--no-such-option"}), "no option `--no-such-option`");
  EXPECT_CONTAINS(refused({"eval", folder_ + "/nowhere"}), "nowhere");

  Arguments one = under_mpi(1, train("moons", {}));
  one.push_back(":");
  for (const string& word : with({"-n", "1", CARAVAN_COMMAND}, train("moons", {"--memory-limit", "1"})))
    one.push_back(word);
  const Outcome o = run_program(one);
  EXPECT_NE(o.code, 0);
  EXPECT_CONTAINS(o.err, "more than the limit of 1 bytes");
}

TEST_F(Many, TheFirstProcessPrints) {
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  const auto times_printed = [&](const Arguments& command, const string& text) {
    const Outcome o = run_program(under_mpi(2, command));
    EXPECT_EQ(o.code, 0) << o.err;
    int times = 0;
    for (size_t at = o.out.find(text); at != string::npos; at = o.out.find(text, at + 1)) ++times;
    return times;
  };
  const string plot = folder_ + "/profile.svg";
  EXPECT_EQ(times_printed({"profile", "moons", "--steps", "3", "--threads", "1", "--json", "--plot", plot},
                          R"("program":"moons")"),
            1);
  EXPECT_TRUE(exists(plot));
  EXPECT_EQ(times_printed({"inspect", "moons", "--stage", "plan"}, "The mesh is data=2."), 1);
  EXPECT_EQ(times_printed({"plan", "moons", "--mesh", "data=4", "--estimate"}, "moons on data=4"), 1);
}

// What is printed last can be typed as it is: it is for the same devices.
TEST_F(Many, TheNextCommandIsForTheSameDevices) {
  const string save = folder_ + "/run", to_go_on = " --resume " + save + " --save " + save;
  const auto expect_next = [&](const Arguments& how, const string& command) {
    EXPECT_CONTAINS(good(train("moons", how)).last_line(), R"("next":")" + command + "\"");
  };
  expect_next({"--until", "4", "--devices", "cpu:0,cpu:1", "--split-states", "--parts", "10", "--save", save},
              "caravan train moons --devices cpu:0,cpu:1" + to_go_on);  // the file keeps the rest
  expect_next({"--resume", save, "--save", save, "--until", "8", "--devices", "5"},
              "caravan train moons --devices 5" + to_go_on);
  expect_next({"--resume", save, "--save", save, "--until", "12"}, "caravan train moons" + to_go_on);
  expect_next(
      {"--steps", "4", "--devices", "3", "--engine", "streams", "--split-states", "--parts", "6", "--batch", "12"},
      "caravan train moons --devices 3 --engine streams --parts 6 --split-states --batch 12 --save model.safetensors "
      "--plot plots");
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  const Outcome o = run_program(under_mpi(2, train("moons", {"--resume", save, "--save", save, "--until", "16"})));
  EXPECT_CONTAINS(o.last_line(), R"("next":"mpirun -n 2 caravan train moons)" + to_go_on + "\"");
}

TEST_F(Many, ProcessesThatDisagreeSaySo) {
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  // What the second process says, if both have other arguments.
  const auto disagree = [&](const Arguments& first, const Arguments& second) {
    Arguments both = under_mpi(1, first);
    both.push_back(":");
    for (const string& word : Arguments{"-n", "1", CARAVAN_COMMAND}) both.push_back(word);
    for (const string& word : second) both.push_back(word);
    const Outcome o = run_program(both);
    EXPECT_NE(o.code, 0);
    EXPECT_EQ(o.err.find("caravan: "), o.err.rfind("caravan: ")) << "said once: " << o.err;
    return o.err;
  };
  const auto moons = [&](const Arguments& more) { return train("moons", with({"--batch", "20"}, more)); };
  for (const string option : {"--until", "--seed", "--lr"})
    EXPECT_CONTAINS(disagree(moons({option, "1"}), moons({option, "2"})),
                    "process 1 has another " + option + " than process 0; all of them must be started with the same");
  EXPECT_CONTAINS(disagree(moons({"--steps", "1"}), moons({"--steps", "2"})), "another number of steps than process 0");
  EXPECT_CONTAINS(disagree(moons({"--until", "1"}), train("moons", {"--batch", "10", "--until", "1"})),
                  "another --batch than process 0");
  EXPECT_CONTAINS(disagree(moons({"--split-states"}), moons({})), "process 1 has another mesh than process 0");
  EXPECT_CONTAINS(disagree(moons({}), {"train", "moons", "--batch", "20", "--device", "interp"}),
                  "process 1 has another kind of device than process 0");
  std::filesystem::create_directories(folder_ + "/data");
  string other = content(data_ + "/names.txt");
  other[0] = 'b';  // as many letters
  std::ofstream(folder_ + "/data/names.txt") << other;
  const Arguments names = {"train", "names-bigram", "--debug-kernels", "--steps", "4", "--batch", "4", "--data"};
  EXPECT_CONTAINS(disagree(with(names, {data_}), with(names, {folder_ + "/data"})),
                  "process 1 has other data `data` than process 0");
  EXPECT_CONTAINS(disagree(with(names, {data_, "--l2", "0.1"}), with(names, {data_, "--l2", "0.2"})),
                  "process 1 has another --l2 than process 0");
}
// What only the first process writes may take it a while.
TEST_F(Many, TheFirstProcessReportsInPeace) {
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  const Outcome o = run_program(under_mpi(
      2, train("names-mlp", {"--steps", "4", "--batch", "4", "--split-states", "--plot", folder_ + "/plots"})));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(exists(folder_ + "/plots/embedding.svg"));
  EXPECT_CONTAINS(run_program(under_mpi(2, train("moons", {"--trace", folder_ + "/trace"}))).err,
                  "--trace runs a step in one process");
}

bool has_ended(pid_t process) {
  return content("/proc/" + std::to_string(process) + "/status").find("State:\tZ") != string::npos;
}
// What mpirun has started and has not ended: its children with the name of the program.
std::vector<pid_t> ranks_of(pid_t run, const string& program) {
  std::vector<pid_t> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const string status = content(entry.path().string() + "/status");
    if (status.find("PPid:\t" + std::to_string(run) + "\n") != string::npos &&
        status.find("Name:\t" + program + "\n") == 0 && status.find("State:\tZ") == string::npos)
      out.push_back(pid_t(std::stol(entry.path().filename().string())));
  }
  return out;
}

// Kills one process of two, several times: the other ends soon, and what was saved is whole.
TEST_F(Many, AKilledProcessEndsTheRun) {
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  const string file = folder_ + "/run";
  for (int k = 0; k < 3; ++k) {
    const pid_t run =
        start(under_mpi(2, train("moons", {"--epochs", "100000", "--save", file, "--save-every", "0.05"})));
    for (int tries = 0; tries < 600 && !exists(file); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::this_thread::sleep_for(std::chrono::milliseconds(37 * k));
    const std::vector<pid_t> ranks = ranks_of(run, "caravan");
    ASSERT_EQ(ranks.size(), 2u);
    const auto from = std::chrono::steady_clock::now();
    kill(ranks[size_t(k % 2)], SIGKILL);
    const auto within = [&](int seconds) {
      return std::chrono::steady_clock::now() - from < std::chrono::seconds(seconds);
    };
    while (!ranks_of(run, "caravan").empty() && within(10)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(within(10));
    // Open MPI 4.1.4: once in 175 kills mpirun itself did not end after them.
    while (!has_ended(run) && within(20)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (!has_ended(run)) kill(run, SIGKILL);
    EXPECT_NE(ended(run).code, 0);
    EXPECT_GT(data::read_safetensors(file).list.size(), 0u);
    std::filesystem::remove(file);
  }
}

// Tests that are not run by themselves: by_ranks() starts one of them as several processes.
using Rank = testing::Test;

TEST_F(Rank, DISABLED_IsStoppedBeforeTheStart) {
  if (mpi::launch().rank == 1) raise(SIGSTOP);
  mpi::communicator({.start = std::chrono::seconds(2)});
}
TEST_F(Many, AProcessThatDoesNotBeginEndsTheRun) {
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  const auto from = std::chrono::steady_clock::now();
  const Outcome o = run_program(with({"/usr/bin/timeout", "60"}, by_ranks(3, "IsStoppedBeforeTheStart")));
  EXPECT_LT(std::chrono::steady_clock::now() - from, std::chrono::seconds(10));
  EXPECT_NE(o.code, 0);
  EXPECT_CONTAINS(o.err, "not all of the 3 processes have begun within 2 seconds, so all of them stop;");
  EXPECT_EQ(o.err.find("caravan: "), o.err.rfind("caravan: ")) << "said once: " << o.err;
}

TEST_F(Rank, DISABLED_AsksForItsNumber) {
  Context ctx({.device = "cpu", .mesh = {{"data", process_count()}}, .compiler_flags = {"-O0"}});
  const Tensor x = place(rows({{1}, {2}, {3}}), "data");
  const double all = ctx.eval(sum(x)).item();  // by all: a step exchanges values
  if (process_rank() == 0) std::cerr << "the first of " << process_count() << " has " << all << "\n";
}
TEST_F(Many, AProcessKnowsItsNumber) {
  EXPECT_EQ(process_rank(), 0);
  EXPECT_EQ(process_count(), 1);
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  const Outcome o = run_program(with({"/usr/bin/timeout", "60"}, by_ranks(3, "AsksForItsNumber")));
  EXPECT_EQ(o.code, 0) << o.err;
  const string said = "the first of 3 has 6";
  EXPECT_CONTAINS(o.err, said);
  EXPECT_EQ(o.err.find(said), o.err.rfind(said)) << "said once: " << o.err;
}

TEST_F(Rank, DISABLED_IsBusy) {
  const auto all = mpi::communicator({.wait = std::chrono::seconds(2)});
  if (mpi::launch().rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(4500));
  all->agree("another number", "1");
}
TEST_F(Many, AProcessThatIsLongWaitedForSaysSo) {
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  const Outcome o = run_program(with({"/usr/bin/timeout", "60"}, by_ranks(3, "IsBusy")));
  EXPECT_EQ(o.code, 0) << o.err;
  const string said = "caravan: others have waited for process 1 of 3 for 2 seconds; it is alive (";
  EXPECT_CONTAINS(o.err, said);
  EXPECT_EQ(o.err.find(said), o.err.rfind(said)) << "said once: " << o.err;
}

TEST_F(Rank, DISABLED_IsGivenAnotherIndex) {
  Context ctx({.device = "cpu", .mesh = {{"data", 2}}, .compiler_flags = {"-O0"}});
  const Index step("step");
  const Tensor x = place(uniform("x", {.batch = {4}, .output = {3}, .step = step}), "data");
  Routine run = ctx.compile(train_step(mean(square(param("w", {.output = {2}})(x))), sgd({.lr = 0.1})));
  run.run({{step, 7}});
  try {
    run.run({{step, 8 + mpi::launch().rank}});
  } catch (const backend::Disagreement& error) {
    std::cerr << error.what() << "\n";
  }
}
TEST_F(Many, ProcessesThatAreGivenOtherIndicesSaySo) {
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  const Outcome o = run_program(with({"/usr/bin/timeout", "60"}, by_ranks(2, "IsGivenAnotherIndex")));
  EXPECT_EQ(o.code, 0) << o.err;
  const string said = "processes were given other values of an index for the same step";
  EXPECT_CONTAINS(o.err, said);
  EXPECT_NE(o.err.find(said), o.err.rfind(said)) << "both throw it: " << o.err;
}

// Processes part from each other through mpirun, which does not answer here.
TEST_F(Rank, DISABLED_StopsMpirun) {
  mpi::communicator({.parting = std::chrono::seconds(1)})->agree("another number", "1");
  if (mpi::launch().rank == 0) kill(getppid(), SIGSTOP);
}
TEST_F(Many, TheEndIsLimited) {
  if (!has_mpi()) GTEST_SKIP() << "there is no mpirun (apt-get install openmpi-bin)";
  const pid_t run = start(by_ranks(2, "StopsMpirun"));
  const auto from = std::chrono::steady_clock::now();
  while (content("/proc/" + std::to_string(run) + "/status").find("State:\tT") == string::npos &&
         std::chrono::steady_clock::now() - from < std::chrono::seconds(20))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  while (!ranks_of(run, "many_test").empty() && std::chrono::steady_clock::now() - from < std::chrono::seconds(20))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(ranks_of(run, "many_test").empty());
  kill(run, SIGCONT);
  const Outcome o = ended(run);
  EXPECT_NE(o.code, 0);
  EXPECT_CONTAINS(o.err, "process 0 of 2 is done, but has waited 1 seconds for the end of the others or of mpirun");
}

}  // namespace
#endif
