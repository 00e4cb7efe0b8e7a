// Runs the collectives of plans on one device of a mesh. What has begun is exchanged by a thread of its own, while the
// device computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "caravan/backend/communicator.h"
#include "caravan/loop/loop.h"
#include "caravan/mesh/mesh.h"

namespace caravan::backend {

// What the thread that runs a collective does around it. A GPU brings values to where the communicator finds them.
struct AroundExchange {
  std::function<void()> before{}, after{};
};

class Exchange {
 public:
  Exchange(std::shared_ptr<Communicator> communicator, const Mesh& mesh);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Runs a kernel that is a collective or a wait; `buffers` has their memory by number. A collective
  // that is waited for directly after it has begun is not given to the other thread. Throws what the communicator does.
  void run(const loop::Module& module, size_t kernel, void* const* buffers, const AroundExchange& around = {});

  // A step begins, for which all devices must be given the same values of indices. If they are in processes of their
  // own, the next all-reduce along each axis compares these values, eight bytes of what it sends, and throws
  // Disagreement on all devices if they differ.
  void begin_step(std::span<const int64_t> indices);

  Communicator& communicator() { return *communicator_; }
  const Mesh& mesh() const { return mesh_; }
  Exchanged take_exchanged();  // since the last call of this function

 private:
  struct Job {
    const loop::LibraryCall* call = nullptr;
    const loop::Module* module = nullptr;
    void* const* buffers = nullptr;
    uint64_t ticket = 0;
    AroundExchange around{};
    std::optional<int32_t> indices{};  // of begin_step
  };
  void work();
  void execute(const Job& job);
  std::optional<int32_t> indices_to_compare(const loop::LibraryCall::Collective& call);
  void wait_for(uint64_t ticket);

  std::shared_ptr<Communicator> communicator_;
  const Mesh mesh_;
  std::vector<std::vector<int>> groups_;  // by axis of the mesh
  std::vector<Reduced> reduced_;          // of the call that is executed; kept, so that a step allocates little
  std::vector<Gathered> gathered_;
  int32_t indices_ = 0;             // of begin_step: a hash
  std::vector<char> not_compared_;  // by axis of the mesh

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  uint64_t begun_ = 0, done_ = 0;                  // tickets
  std::vector<std::pair<size_t, uint64_t>> open_;  // kernels that have begun, and their tickets
  std::exception_ptr failed_;
  bool stop_ = false;
  Exchanged exchanged_;
  std::thread thread_;  // started when it is first needed
};

}  // namespace caravan::backend
