// What a device of a mesh calls to exchange values with the others. Each engine (streams, mpi, nccl) has one of these.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "caravan/base/error.h"
#include "caravan/ops/op.h"

namespace caravan::backend {

// Devices were not started with the same command, or have other data. All of them throw it, with the same message.
class Disagreement : public BackendError {
 public:
  using BackendError::BackendError;
};

// A buffer of each device of a group; all of them get the combination of all, or each of them a slice of it.
struct Reduced {
  const void* from = nullptr;
  void* to = nullptr;  // not the same memory
  int64_t elements = 0;
  DType dtype{};
  Accumulator accumulator{};
  int64_t stripes = 1;  // of a slice: those of all devices take turns
};
// A buffer of each device of a group; all of them get all of these, of which the stripes take turns.
struct Gathered {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t stripes = 1, bytes = 0;  // of one stripe
};

// The devices of a mesh call the same functions in the same order; a group is the list of the ranks that take part. A
// call returns when this device has its values. It throws BackendError if another device has stopped, or does not
// answer any more.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int devices() const = 0;
  // Are the values in the memory of a GPU? Otherwise they are in that of the process.
  virtual bool on_gpu() const { return false; }
  // Values are combined in a tree that depends on the group alone, so that all runs give the same bits, and all devices
  // have the same ones.
  virtual void all_reduce(const std::vector<int>& group, std::span<const Reduced> parts) = 0;
  virtual void all_gather(const std::vector<int>& group, std::span<const Gathered> parts) = 0;
  // What all_reduce gives, bit for bit, but device d of the group gets slice d alone, its stripes one after the other.
  // The number of elements is a multiple of the stripes of all devices.
  virtual void reduce_scatter(const std::vector<int>& group, std::span<const Reduced> parts) = 0;
  // All devices must give the same text, such as that of the program. If they do not, all of them throw Disagreement,
  // which says which device has what, such as `another program`.
  virtual void agree(const std::string& what, const std::string& text) = 0;
  // Whether the device has nothing else to do until a call returns, which may run in another thread: then it asks for
  // messages without pauses.
  virtual void set_urgent([[maybe_unused]] bool urgent) {}
  // This device cannot go on: the calls of the others throw, too.
  virtual void stop(const std::string& why) = 0;
};

// Combines element k of all rows into out[k], for first <= k < last: ((0 + 1) + (2 + 3)) + ..., as a balanced tree.
void combine(std::span<const void* const> rows, void* out, int64_t first, int64_t last, DType dtype,
             Accumulator accumulator);

}  // namespace caravan::backend
