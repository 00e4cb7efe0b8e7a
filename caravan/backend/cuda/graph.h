// Work for a GPU that is recorded once and then started by one launch, as often as it is needed.
#pragma once

#include <functional>
#include <vector>

#include "caravan/backend/cuda/gpu.h"

namespace caravan::cuda {

class Graph {
 public:
  // Puts its work into this stream. `early`: its blocks may be started before the work before it has ended; they wait
  // for its end themselves (caravan_begin in prelude/cuda.cuh).
  struct Launch {
    std::function<void(StreamHandle*, bool early)> put;
    bool is_kernel = true;
  };
  using Stage = std::vector<Launch>;  // whose work may run at the same time

  explicit Graph(const Gpu& gpu) : gpu_(gpu) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void record(const std::vector<Stage>& stages);
  bool recorded() const { return graph_ != nullptr; }
  void launch() const;  // in the stream of the GPU
  void forget();

 private:
  void make_branches();

  const Gpu& gpu_;
  GraphExecHandle* graph_ = nullptr;
  std::vector<StreamHandle*> branches_;  // beside the stream of the GPU
  std::vector<EventHandle*> events_;     // the begin of a stage, and the end of each branch
};

}  // namespace caravan::cuda
