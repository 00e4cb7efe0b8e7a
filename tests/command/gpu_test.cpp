// What the command says of a GPU that cannot be used, and that `auto` takes the processor then. The driver is a fake
// one (tests/fake_cuda).
#include <gtest/gtest.h>

#include "command.h"
#include "temporary_folder.h"

namespace {

const string kFolder = CARAVAN_FAKE_CUDA;

Arguments with(const string& fault, const string& nvrtc = kFolder + "/libfake_nvrtc.so") {
  return {"LD_LIBRARY_PATH=" + kFolder, "FAKE_GPU=" + fault, "CARAVAN_NVRTC=" + nvrtc};
}

struct Fault {
  string fault, nvrtc, sentence;
};
const Fault kFaults[] = {
    {"old", "", "the driver of NVIDIA is for CUDA 11.8; install one for CUDA 12.0 or newer"},
    {"none", "", "there is no GPU on this machine"},
    {"", "/nowhere.so", "CARAVAN_NVRTC names the run-time compiler /nowhere.so, which cannot be opened"},
};
Arguments environment(const Fault& f) { return f.nvrtc.empty() ? with(f.fault) : with(f.fault, f.nvrtc); }

TEST_F(Command, DoctorSaysInOneSentenceWhyAGpuCannotBeUsed) {
  for (const Fault& f : kFaults)
    EXPECT_CONTAINS(run({"doctor", "--json"}, environment(f)).out,
                    R"("name":"cuda","works":false,"note":")" + f.sentence + "\"");
  EXPECT_CONTAINS(run({"doctor", "--json"}, with("")).out,
                  R"("works":true,"note":"Fake GPU; driver for CUDA 12.4, run-time compiler 12.4)");
}

TEST_F(Command, AGpuThatCannotBeUsedIsRefused) {
  for (const Fault& f : kFaults) {
    const Outcome o = run({"train", "linear", "--steps", "1", "--quiet", "--device", "cuda"}, environment(f));
    EXPECT_EQ(o.code, 2);
    EXPECT_EQ(o.err, "caravan: the device `cuda` cannot be used: " + f.sentence + ".\n");
  }
  EXPECT_CONTAINS(run({"train", "linear", "--steps", "1", "--quiet", "--device", "cuda"}, with("full")).err,
                  "the GPU Fake GPU cannot be used: it is full, or reserved by another process.");
}

// A step of it is large enough for a GPU.
Arguments large_step() { return {"train", "names-mlp", "--steps", "1", "--quiet", "--json"}; }

TEST_F(Command, AutoTakesTheProcessorAndSaysWhy) {
  std::vector<Fault> faults(std::begin(kFaults), std::end(kFaults));
  faults.push_back({"full", "", "the GPU Fake GPU cannot be used: it is full, or reserved by another process"});
  faults.push_back({"small", "", "bytes for its buffers; the GPU has 1000 bytes free of 80000000000"});
  for (const Fault& f : faults) {
    const Outcome o = run(large_step(), environment(f));
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_CONTAINS(o.out, "\"device\":\"cpu\"");
    EXPECT_CONTAINS(o.err, "caravan: the GPU is not used: ");
    EXPECT_CONTAINS(o.err, f.sentence + ".\n");
  }
}

// What is wrong is known only at the end of a step, unless the user asks for more.
TEST_F(Command, AnErrorOnTheGpuIsReported) {
  Arguments broken = with("broken");
  const Arguments train = {"train", "names-mlp", "--steps", "1", "--quiet", "--device", "cuda"};
  const string lost = "This process cannot use the GPU any more; start it again, from a checkpoint.";
  const Outcome o = run(train, broken);
  EXPECT_EQ(o.code, 3);
  EXPECT_CONTAINS(o.err,
                  "(CARAVAN_CUDA_DEBUG=1 finds out which one): a fault of the fake driver (CUDA error 700). " + lost);
  broken.push_back("CARAVAN_CUDA_DEBUG=1");
  const Outcome more = run(train, broken);
  EXPECT_EQ(more.code, 3);
  EXPECT_CONTAINS(more.err, "the GPU reports an error in the kernel `");
  EXPECT_CONTAINS(more.err, "names_mlp.cpp:");
  EXPECT_CONTAINS(more.err, lost);
}

// What the cache keeps of a program for a GPU, so that its plan is not made again.
TEST_F(Command, TheStepsOfAGpuAreKept) {
  const TemporaryFolder cache;
  Arguments environment = with("");
  environment.push_back("CARAVAN_CACHE=" + cache.path);
  auto plans = [&] {
    int out = 0;
    for (const auto& entry : std::filesystem::directory_iterator(cache.path))
      out += entry.path().extension() == ".plan";
    return out;
  };
  const Arguments train = {"train", "names-mlp", "--steps", "1", "--quiet", "--device", "cuda"};
  const Outcome first = run(train, environment);
  EXPECT_EQ(first.code, 0) << first.err;
  const int kept = plans();
  EXPECT_GT(kept, 0);
  EXPECT_EQ(run(train, environment).code, 0);
  EXPECT_EQ(plans(), kept);
}

TEST_F(Command, AutoSaysNothingOfAGpuForASmallStepOrWithoutADriver) {
  EXPECT_EQ(run({"train", "linear", "--steps", "1", "--quiet", "--json"}, with("full")).err, "");
}

TEST_F(Command, DoctorSaysWhichEnginesOfMeshesThereAre) {
  const string nccl = "CARAVAN_NCCL=" + kFolder + "/libfake_nccl.so";
  EXPECT_CONTAINS(run({"doctor", "--json"}, {nccl}).out, R"("nccl":"NCCL 2.21.5")");
  EXPECT_CONTAINS(run({"doctor", "--json"}, {nccl, "FAKE_NCCL=old"}).out,
                  R"("nccl":"NCCL is of version 2.4.2; install 2.7 or newer")");
  EXPECT_CONTAINS(run({"doctor"}, {"CARAVAN_NCCL=/nowhere.so"}).out, "NCCL cannot be used: /nowhere.so");
  EXPECT_CONTAINS(run({"train", "linear", "--steps", "1", "--quiet", "--engine", "nccl", "--device", "cpu"}).err,
                  "the engine `nccl` is for GPUs, and the device `cpu` is none");
}

// The fake GPU computes nothing: this is about what the process does around it, from first to last.
TEST_F(Command, GpusOfAMeshExchangeByEachEngine) {
  for (const Arguments& how :
       {Arguments{"--devices", "cuda:0,cuda:0"}, Arguments{"--devices", "1", "--engine", "nccl"}}) {
    Arguments arguments = {"train", "moons", "--steps", "3", "--batch", "20", "--quiet", "--json", "--device", "cuda"};
    arguments.insert(arguments.end(), how.begin(), how.end());
    Arguments environment = with("");
    environment.push_back("CARAVAN_NCCL=" + kFolder + "/libfake_nccl.so");
    const Outcome o = run(arguments, environment);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_CONTAINS(o.out, "\"device\":\"cuda\"");
    EXPECT_CONTAINS(o.out, "hidden_share");
  }
}

}  // namespace
