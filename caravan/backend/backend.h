// The interface of a backend: a device that keeps named state, describes its target, and runs plans. It has no list of
// operations, because kernels are generated.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caravan/base/quick_code.h"
#include "caravan/mesh/mesh.h"
#include "caravan/plan/plan.h"
#include "caravan/target/peaks.h"

namespace caravan {

struct Drawing;  // of base/random.h

}  // namespace caravan

namespace caravan::backend {

// What is known of an executable.
struct Report {
  int64_t arena_bytes = 0;           // memory of the buffers that are not state
  int kernels = 0;                   // number of generated functions
  std::vector<std::string> sources;  // paths of generated text, where there is any
  bool from_cache = false;           // true iff nothing had to be compiled
  QuickCode quick_code{};            // what it began on, if that was not the best code
};

// Advances the symbols to the next step: each is incremented, modulo its range.
inline void next(std::vector<int64_t>& symbols, const std::vector<int64_t>& ranges) {
  for (size_t k = 0; k < symbols.size(); ++k)
    if (++symbols[k] == ranges[k]) symbols[k] = 0;
}

// A plan made ready for one device.
class Executable {
 public:
  virtual ~Executable() = default;
  // One step. A failure (a symbol out of range, a state that was never initialised) leaves the state as it was.
  virtual void run(const std::vector<int64_t>& symbols) = 0;
  // Runs `steps` steps. After each, every symbol is incremented, modulo its range.
  virtual void run_steps(int64_t steps, std::vector<int64_t>& symbols, const std::vector<int64_t>& ranges) {
    for (int64_t s = 0; s < steps; ++s) run(symbols), next(symbols, ranges);
  }
  // The same, measured: the nanoseconds that each of the plan's kernels took, summed over all steps. A device that does
  // not run kernels runs no step and returns nothing.
  virtual std::optional<std::vector<double>> run_timed(int64_t, std::vector<int64_t>&, const std::vector<int64_t>&) {
    return std::nullopt;
  }
  // A result of the last run, by its position in the program's `observed`.
  virtual Array observed(size_t which) const = 0;
  // Where its elements lie until the next run, in the precision of the program; null where they lie in another form.
  virtual const void* observed_memory([[maybe_unused]] size_t which) const { return nullptr; }
  virtual Report report() const { return {}; }  // what is known of it
  // Waits until the best code of the program is compiled, and has the next run use it.
  virtual void finish_compiling() {}
};

// Something that runs plans, with the states that they read and write.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // what Context::device() says, for example "cpu"
  // The target of plans for this device. Nothing: the device runs programs without a plan, and reads only
  // Plan::program.
  virtual std::optional<Target> target() const { return std::nullopt; }
  // Makes a plan ready to run, for example by compiling it.
  virtual std::unique_ptr<Executable> prepare(std::shared_ptr<const plan::Plan> plan) = 0;
  // Makes a program ready without its plan, if a plan of the same program was prepared before, and this device keeps
  // such things. `bare` is a plan that is not made. Null: make the plan, and prepare it.
  virtual std::unique_ptr<Executable> restore([[maybe_unused]] std::shared_ptr<const plan::Plan> bare) {
    return nullptr;
  }
  virtual std::optional<Peaks> peaks() { return std::nullopt; }  // measures them now; nothing if the device cannot
  virtual Exchanged take_exchanged() { return {}; }              // of the devices of a mesh, since the last call

  // States by name. If a program declares a state, a value that is written to it must have the declared size.
  virtual bool has(const std::string& state) const = 0;
  virtual Array read(const std::string& state) const = 0;  // a copy of a state that it has
  // Of a mesh whose devices are processes: reading a state that is divided over them takes all of them. After this
  // call, which all of them make, each can read all states alone until a program assigns or someone writes one.
  virtual void collect_states() {}
  // Keeps the value in precision `dtype`.
  virtual void write(const std::string& state, const Array& value, DType dtype) = 0;
  virtual std::vector<std::string> names() const = 0;  // of all states that it has
  // The memory of a state's elements in this process, in the precision that it was declared with; null if the device
  // keeps them in another form.
  virtual const void* memory([[maybe_unused]] const std::string& state) const { return nullptr; }
  // Makes memory of the caller a state, so that programs read and write it in place. It needs no more alignment than
  // its elements. Returns false if the device cannot do that, because it keeps states in another form.
  virtual bool borrow([[maybe_unused]] const std::string& state, [[maybe_unused]] const Shape& shape,
                      [[maybe_unused]] DType dtype, [[maybe_unused]] void* memory) {
    return false;
  }
  using Fill = std::function<void(void* memory, int64_t first, int64_t last)>;  // of fill(), which calls it
  // Writes a state without a temporary array. `fill` is called for neighbouring elements first .. last-1, until it has
  // been called for all of them, and receives the memory of the first one. This default, for devices that keep states
  // in another form, uses a temporary array.
  virtual void fill(const std::string& state, const Shape& shape, DType dtype, const Fill& fill) {
    Array value(shape, dtype);
    fill(value.mutable_data(), 0, value.size());
    write(state, value, dtype);
  }
  // Draws the elements of a state itself, with the bits of caravan::draw. Returns false, and does nothing, if it does
  // not.
  virtual bool draw([[maybe_unused]] const std::string& state, [[maybe_unused]] const Shape& shape,
                    [[maybe_unused]] DType dtype, [[maybe_unused]] const Drawing& drawing) {
    return false;
  }
  // Sets all elements of a state to 0.
  virtual void clear(const std::string& state, const Shape& shape, DType dtype) {
    write(state, Array(shape, dtype), dtype);
  }
};

// The plan of a program for a machine.
std::shared_ptr<const plan::Plan> plan_for(const Target& target, const ir::Program& verified,
                                           const plan::Options& options = {});
// A program that is ready to run, and the part of its plan that this took.
struct Prepared {
  std::shared_ptr<const plan::Plan> plan;  // not made if the device has no target, or had the program before
  std::unique_ptr<Executable> executable;  // runs it
};
// Makes a program ready to run on the device, with its plan if that is needed.
Prepared prepare(Device& device, const ir::Program& verified, const plan::Options& options = {});

}  // namespace caravan::backend
