#include "caravan/backend/cuda/graph.h"

#include <algorithm>

#include "caravan/target/gpu_steps.h"

namespace caravan::cuda {

void Graph::make_branches() {
  constexpr unsigned kNonBlocking = 1, kWithoutTime = 2;
  while (branches_.size() + 1 < kBranches) {
    branches_.push_back(nullptr);
    check(gpu_.driver().stream_create(&branches_.back(), kNonBlocking), "the GPU gives no stream");
  }
  while (events_.size() < kBranches) {
    events_.push_back(nullptr);
    check(gpu_.driver().event_create(&events_.back(), kWithoutTime), "the GPU gives no event");
  }
}

void Graph::record(const std::vector<Stage>& stages) {
  forget();
  make_branches();
  const Driver& driver = gpu_.driver();
  StreamHandle* main = gpu_.stream();
  const char* kFailed = "the GPU does not record a step";
  constexpr int kThisThread = 1;                 // only calls of this thread are recorded
  constexpr int kFirstWithEarlyKernels = 12030;  // the version of CUDA from which they can be recorded
  bool after_kernel = false;                     // is the last work of the stream one kernel?
  check(driver.capture_begin(main, kThisThread), kFailed);
  for (const Stage& stage : stages) {
    const size_t used = std::min(stage.size(), kBranches);
    if (used > 1) check(driver.event_record(events_[0], main), kFailed);
    for (size_t b = 1; b < used; ++b) check(driver.stream_after(branches_[b - 1], events_[0], 0), kFailed);
    const bool early = after_kernel && stage.size() == 1 && driver.version >= kFirstWithEarlyKernels &&
                       gpu_.target().gpu.early_kernels;
    for (size_t k = 0; k < stage.size(); ++k)
      stage[k].put(k % kBranches == 0 ? main : branches_[k % kBranches - 1], early);
    after_kernel = stage.size() == 1 && stage[0].is_kernel;
    for (size_t b = 1; b < used; ++b) {
      check(driver.event_record(events_[b], branches_[b - 1]), kFailed);
      check(driver.stream_after(main, events_[b], 0), kFailed);
    }
  }
  GraphHandle* recorded = nullptr;
  check(driver.capture_end(main, &recorded), kFailed);
  const Result made = driver.graph_instantiate(&graph_, recorded, 0);
  driver.graph_destroy(recorded);
  check(made, "the GPU does not take a recorded step");
}
void Graph::launch() const {
  check(gpu_.driver().graph_launch(graph_, gpu_.stream()), "the GPU does not run a recorded step");
}
void Graph::forget() {
  if (graph_) gpu_.driver().graph_exec_destroy(graph_);
  graph_ = nullptr;
}
Graph::~Graph() {
  forget();
  for (EventHandle* event : events_) gpu_.driver().event_destroy(event);
  for (StreamHandle* branch : branches_) gpu_.driver().stream_destroy(branch);
}

}  // namespace caravan::cuda
