// What a backend is: a device that keeps named state, says what it is made of, and runs plans. Kernels are generated,
// so this is all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caravan/plan/plan.h"
#include "caravan/target/peaks.h"

namespace caravan::backend {

// What is known of an executable before it runs.
struct Report {
  int64_t arena_bytes = 0;           // its buffers, beside the state
  int kernels = 0;                   // how many functions were generated
  std::vector<std::string> sources;  // paths of generated text, where there is any
  bool from_cache = false;           // nothing had to be compiled
};

// The symbols of the step after this one.
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
  // `steps` runs in a row: after each, every symbol goes up by one and starts again at 0 where its range ends.
  virtual void run_steps(int64_t steps, std::vector<int64_t>& symbols, const std::vector<int64_t>& ranges) {
    for (int64_t s = 0; s < steps; ++s) run(symbols), next(symbols, ranges);
  }
  // The same, measured: the nanoseconds that each of the plan's kernels took in all of them together. Nothing, and no
  // step is run, where the device does not run a plan's kernels.
  virtual std::optional<std::vector<double>> run_timed(int64_t, std::vector<int64_t>&, const std::vector<int64_t>&) {
    return std::nullopt;
  }
  virtual Array observed(size_t which) const = 0;  // of the last run, in the order of the program's `observed`
  virtual Report report() const { return {}; }     // what is known before it runs
};

// Something that runs plans, with the states that they read and write.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // what Context::device() says, for example "cpu"
  // What plans for it are made for; nothing: it runs programs as they are, and a plan's program is all it reads.
  virtual std::optional<Target> target() const { return std::nullopt; }
  // Makes a plan ready to run, by compiling it or whatever the device needs.
  virtual std::unique_ptr<Executable> prepare(std::shared_ptr<const plan::Plan> plan) = 0;
  virtual std::optional<Peaks> peaks() { return std::nullopt; }  // measured now; nothing: not known

  // State by name. What is written must have been declared by no program with another size.
  virtual bool has(const std::string& state) const = 0;
  virtual Array read(const std::string& state) const = 0;                             // a copy of a state that it has
  virtual void write(const std::string& state, const Array& value, DType dtype) = 0;  // keeps the value, as `dtype`
  virtual std::vector<std::string> names() const = 0;                                 // of all states that it has
  // Where the elements of a state lie in this process, in the precision that it was declared with; null where the
  // device keeps them in another form.
  virtual const void* memory([[maybe_unused]] const std::string& state) const { return nullptr; }
  // Writes a state where it lies, without an array beside it: `fill` is given the memory of all of its elements. One
  // that keeps its states in another form makes an array of it.
  virtual void fill(const std::string& state, const Shape& shape, DType dtype,
                    const std::function<void(void* memory)>& fill) {
    Array value(shape, dtype);
    fill(value.mutable_data());
    write(state, value, dtype);
  }
};

// The plan of a program for this device, or for this processor if the device needs none.
std::shared_ptr<const plan::Plan> plan_for(const Device& device, const ir::Program& verified,
                                           const plan::Options& options = {});
// As much of it as the device reads: where it needs no plan, the program alone.
std::shared_ptr<const plan::Plan> needed_plan(const Device& device, const ir::Program& verified,
                                              const plan::Options& options = {});
// The program made ready.
std::unique_ptr<Executable> prepare(Device& device, const ir::Program& verified, const plan::Options& options = {});

}  // namespace caravan::backend
