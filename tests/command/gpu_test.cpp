// What the command says of a GPU that cannot be used, and that `auto` takes the processor then. The driver is a fake
// one (tests/fake_cuda).
#include <gtest/gtest.h>

#include "command.h"

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
                    R"("name":"cuda","built":true,"works":false,"note":")" + f.sentence + "\"");
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

TEST_F(Command, AutoSaysNothingOfAGpuForASmallStepOrWithoutADriver) {
  EXPECT_EQ(run({"train", "linear", "--steps", "1", "--quiet", "--json"}, with("full")).err, "");
}

}  // namespace
