// A Context holds named state and runs programs on a device. It is the only mutable thing of the library, and is used
// by one thread at a time, with its Routines and Functions; what would use it at the same moment is refused. Several
// Contexts are independent of each other, but for a `reader`, which has the states of another.
//
//     Context ctx({.seed = 1});
//     Routine step = ctx.compile(train_step(loss, sgd({.lr = 0.1})));
//     step.run({{batch, 3}});
//     double now = step.read(loss).item();
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "caravan/base/handle.h"
#include "caravan/base/quick_code.h"
#include "caravan/mesh/mesh.h"
#include "caravan/tensor/program.h"
#include "caravan/tensor/tensor.h"

namespace caravan {

class Inference;
struct Target;
namespace backend {
class Device;
}
namespace plan {
struct Plan;
struct Profile;
}  // namespace plan

// Where and how the programs of a Context run.
struct ContextOptions {
  uint64_t seed = 0;  // determines initial values and random tensors
  // `cpu`, `cuda`, `cuda:1`, .. or `interp`. `auto` is `cpu`, or `interp` where there is no C compiler, or only one
  // that compiles wrongly, which is found out when the first program is compiled. If that program assigns states and is
  // large (Gpu::least_work), `auto` is `cuda` where that can be used.
  std::string device = "auto";
  // The largest number of threads that run a step; 0: one for each processor that this process may use. The number does
  // not change a bit of the result.
  int threads = 0;
  // Devices that run the programs of this Context together (docs/many.md): {{"data", 2}} divides what `place` has
  // placed on "data" over two of them. They share the threads. Without axes there is one device.
  Mesh mesh{};
  // How parameters start that say nothing of it; automatic: Kaiming-normal over all input axes, zeros without.
  Init init{};
  // A program that would be compiled for more than about a second begins on code that was compiled in half of the time.
  // It changes over to the better code, which is compiled in the background meanwhile, between two steps. That changes
  // no bit of the result. RoutineReport::quick_code says when it happened. For the device `cpu`.
  bool quick_start = true;
  std::string cache{};                        // folder of compiled code; if empty, $CARAVAN_CACHE or the user's cache
  std::vector<std::string> compiler_flags{};  // more flags for the C compiler, for example -g
  // The most bytes for the buffers of one program, beside states and data; 0: no limit. If a program needs more, values
  // are computed again instead of kept. That takes longer, and changes no bit of the result.
  int64_t memory_limit = 0;
  // On a GPU, products of f32 may round their factors to 10 bits of fraction, as TF32 of tensor cores does. They are
  // several times faster then, and off by about 1 part in 2,000.
  bool tf32 = false;
  // The interpreter needs no plans. These are the plans that Routine::plan shows of its programs: those for a device,
  // which need not be here, such as `cuda`.
  std::string plans_for = "cpu";
  std::vector<std::string> passes_off{};                 // names of optimisations to leave out
  std::function<void(int done, int total)> compiling{};  // called as the parts of a program are compiled
  // Makes a device of your own, used instead of one by name.
  std::function<std::unique_ptr<backend::Device>(const ContextOptions&)> make_device{};
};

// What is known of a routine.
struct RoutineReport {
  int64_t arena_bytes = 0;           // the peak of its buffers, beside the state
  int kernels = 0;                   // how many functions were generated
  std::vector<std::string> sources;  // paths of the generated C, where there is any
  bool from_cache = false;           // nothing had to be compiled
  QuickCode quick_code{};            // what it began on, if that was not the best code
};

// How strict a write by name is.
struct WriteOptions {
  bool create = false;  // take a name that no program has declared yet
  // For a name that no program has declared yet: of the array's shape only the sizes in memory order are kept, and the
  // program that declares the state decides which of them are batch, input and output axes. This is how a file is
  // loaded before there is a program. After such a write, a program is refused if one of its states was not written;
  // only the states that optimisers keep may be missing.
  bool any_axes = false;
};

using IndexValues = std::vector<std::pair<Index, int64_t>>;  // the value of each static index in a run

// What Routine::profile measures.
struct ProfileOptions {
  int64_t steps = 0;    // how many steps are measured; 0 takes as many as run in about half a second
  IndexValues first{};  // the values of the indices in the first step
};

class Context;

// A program ready to run in one Context. Observed values are those of the last run.
class Routine {
 public:
  // Runs one step. Every index of the program needs a value inside its range.
  void run(const IndexValues& values = {}, Source where = Source::here());
  // `steps` runs without coming back to the caller: after each, every index goes up by one, and one with a range starts
  // again at 0 when it reaches the end. So run_steps(6400, {{batch, 0}, {step, 0}}) is 80 epochs of 80 batches.
  void run_steps(int64_t steps, const IndexValues& first = {}, Source where = Source::here());
  // The value of an observed tensor in the last run; refused for others, and before a run.
  Array read(const Tensor& observed, Source where = Source::here()) const;
  // Into the caller's memory, converted as by `cast`; refused where the number of elements is another.
  template <class T>
  void read(const Tensor& observed, std::span<T> out, Source where = Source::here()) const {
    static_assert(kKeptAsIs<T>, "a result cannot be read as numbers of this type");
    const WrittenAt at(where);
    read_to(observed, dtype_of<T>(), out.data(), int64_t(out.size()));
  }

  const std::vector<std::string>& indices() const;  // the names of the indices that a run must be given
  std::string to_string() const;                    // its assignments as text
  RoutineReport report() const;                     // its memory and kernels, and where its generated C is
  // Waits until the best code of the program is compiled; the next run uses it. For those who measure its speed.
  void finish_compiling();
  // How it runs: the program optimised, lowered and scheduled, and its memory (plan/plan.h). Of a device that runs
  // programs as they are, how it would run on this processor. Kept by the routine.
  const plan::Plan& plan() const;
  // Where the time of a step goes (plan/profile.h): runs steps as run_steps does, with a clock read after every kernel,
  // and as many without it. The states are then those after all of these steps. For devices that run a plan's kernels.
  plan::Profile profile(const ProfileOptions& options = {}, Source where = Source::here());

 private:
  friend class Context;
  friend const Inference& inference_of(const Routine& routine);
  struct Impl;
  void bind(const IndexValues& values);
  size_t observed_at(const Tensor& observed) const;  // its place among those that are observed
  void read_to(const Tensor& observed, DType dtype, void* out, int64_t count) const;
  explicit Routine(std::shared_ptr<Impl> impl) : impl_("a Routine", std::move(impl)) {}
  Handle<Impl> impl_;
};

// Named state, and the device that runs programs on it.
class Context {
 public:
  explicit Context(const ContextOptions& options = {}, Source where = Source::here());

  // Infers shapes, initialises the states that have an initialiser, and prepares the program. On failure nothing
  // changes.
  Routine compile(const Program& program, Source where = Source::here());

  // The value of a tensor, or of several, with the states as they are now. Every call compiles (a few milliseconds
  // where the code is in the cache of compiled code); what is evaluated often is better compiled once, or made a
  // Function.
  Array eval(const Tensor& tensor, const IndexValues& values = {}, Source where = Source::here());
  std::vector<Array> eval(const std::vector<Tensor>& tensors, const IndexValues& values = {},
                          Source where = Source::here());
  // Compiles a program and runs it once.
  void run(const Program& program, const IndexValues& values = {}, Source where = Source::here()) {
    compile(program, where).run(values, where);
  }
  Shape shape(const Tensor& tensor, Source where = Source::here());  // what inference finds; computes nothing
  // How a program with the states of this Context would run on a machine, such as the one that a C99 file is for
  // (target/target.h), or on each device of a mesh of them, which need not be there; compiles nothing. Routine::plan
  // says how a program runs here.
  std::shared_ptr<const plan::Plan> plan(const Program& program, const Target& target, const Mesh& mesh = {}) const;

  // The value of a state, by its tensor or its name.
  Array read(const Tensor& state, Source where = Source::here()) const;
  Array read(const std::string& name, Source where = Source::here()) const;
  // Into the caller's memory, converted as by `cast`; refused where the number of elements is another.
  template <class T>
  void read(const Tensor& state, std::span<T> out, Source where = Source::here()) const {
    const WrittenAt at(where);
    read(name_of(state), out, where);
  }
  template <class T>
  void read(const std::string& name, std::span<T> out, Source where = Source::here()) const {
    static_assert(kKeptAsIs<T>, "a state cannot be read as numbers of this type");
    const WrittenAt at(where);
    read_to(name, dtype_of<T>(), out.data(), int64_t(out.size()));
  }
  // The state where it lies, without a copy if the device has it in memory as it was declared: valid until a program
  // assigns it, a write changes it or the Context goes.
  Array view(const Tensor& state, Source where = Source::here()) const {
    const WrittenAt at(where);
    return view(name_of(state), where);
  }
  Array view(const std::string& name, Source where = Source::here()) const;
  void write(const Tensor& state, const Array& value, Source where = Source::here());  // shape and precision must fit
  // By name. Before the first program is compiled, every name is accepted, for programs to come; after that, a name
  // must be that of a state, unless `create` says that a program with it comes later. When a program is compiled and no
  // program has a name that was written, but one of its states without a value has a similar name, the name was
  // probably misspelt, and the program is refused.
  void write(const std::string& name, const Array& value, const WriteOptions& options = {},
             Source where = Source::here());
  // All, or none where one does not fit.
  void write(const std::map<std::string, Array>& values, const WriteOptions& options = {},
             Source where = Source::here());
  // From the caller's memory: the numbers of a state whose sizes are known, in memory order. write(x, floats).
  template <Numbers Values>
  void write(const Tensor& state, const Values& values, Source where = Source::here()) {
    const WrittenAt at(where);
    write(state, viewed(shape_to_write(state, int64_t(std::size(values))), values));
  }
  template <Numbers Values>
  void write(const std::string& name, const Values& values, Source where = Source::here()) {
    const WrittenAt at(where);
    write(name, viewed(shape_to_write(name, int64_t(std::size(values))), values));
  }
  std::vector<std::string> unused() const;  // names that were written and that no program of this Context declares
  // Gives all states that an optimiser of this name (`adam`, or its .name) keeps their initial values, so that training
  // begins anew from the weights as they are; then the next optimiser that uses them has them. Averages likewise.
  void reset(const std::string& optimizer, Source where = Source::here());
  bool has(const std::string& name) const;  // whether a state of this name has a value
  // Whether only write() gives it values: it has no initialiser, and no program assigns it.
  bool is_input(const std::string& name) const;
  // The precision that a state was declared with, whatever the device computes with.
  DType dtype(const std::string& name, Source where = Source::here()) const;
  std::vector<std::string> names() const;       // the names of the states that have a value
  std::map<std::string, Shape> shapes() const;  // the shapes of the states that have a value

  // A Context for another thread, which has the states of this one but for its inputs, without copying them, and can
  // neither write nor assign them; inputs, results and everything else are its own. A program that this one has a
  // Routine of is not compiled again. While there are readers, this Context refuses to change its states: training goes
  // on when they are gone. `threads` run a step of it.
  Context reader(int threads = 1) const;

  // If a mesh divides states over processes, reading one takes all processes. After this call, which all of them must
  // make, each can read all states alone until the next step that assigns them. Otherwise it does nothing.
  void collect_states();

  // What a device of its mesh has exchanged since the last call of this function.
  Exchanged take_exchanged();

  uint64_t seed() const;       // the seed that the options gave
  std::string device() const;  // its kind: `cpu` and `cpu:0` are one device, called `cpu`
  // Why `auto` took a GPU or the interpreter, or why it took no GPU although there is one; empty if there is nothing to
  // say. Like device(), it can change until the first program is compiled.
  const std::string& device_reason() const;

 private:
  friend class Routine;
  friend class Function;
  struct Impl;
  explicit Context(std::shared_ptr<Impl> impl);
  void check_write(const std::string& name, const Array& value, const WriteOptions& options) const;
  static const std::string& name_of(const Tensor& state);  // refused for what is computed
  void check_has(const std::string& name) const;
  void read_to(const std::string& name, DType dtype, void* out, int64_t count) const;
  Shape shape_to_write(const std::string& name, int64_t count) const;
  Shape shape_to_write(const Tensor& state, int64_t count) const;
  template <Numbers Values>
  static Array viewed(Shape shape, const Values& values) {
    if constexpr (kKeptAsIs<ElementOf<Values>>)
      return Array::view(std::move(shape), values);
    else
      return Array(std::move(shape), values);
  }
  Handle<Impl> impl_;
};

// Copies a state from one Context to another by name, whatever their devices: train on one, look on the other, go on.
// Shapes and precisions must fit, as for a write; where one does not, nothing is copied.
void copy_state(const Context& from, Context& to, const std::string& name, Source where = Source::here());
void copy_states(const Context& from, Context& to, Source where = Source::here());  // copies all states that `from` has

}  // namespace caravan
