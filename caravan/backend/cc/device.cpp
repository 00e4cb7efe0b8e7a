#include "caravan/backend/cc/device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <optional>
#include <utility>
#include <variant>

#include "caravan/backend/cc/allowed_vectors.h"
#include "caravan/backend/cc/kept_plans.h"
#include "caravan/backend/cc/memory.h"
#include "caravan/backend/cc/peaks.h"
#include "caravan/backend/cc/pool.h"
#include "caravan/backend/cc/self_test.h"
#include "caravan/backend/cc/thread_trial.h"
#include "caravan/backend/cc/untested_device.h"
#include "caravan/backend/states.h"
#include "caravan/base/error.h"
#include "caravan/base/processors.h"
#include "caravan/codegen/c.h"
#include "caravan/codegen/step.h"
#include "caravan/loop/walk.h"
#include "caravan/target/step_times.h"

namespace caravan::cc {

using ir::BufferId;

namespace {

using State = backend::States<Memory>::State;

struct Shared {  // by the device and its executables
  DeviceOptions options;
  backend::States<Memory> states;
  std::unique_ptr<Pool> pool;  // made for the first program with parallel loops

  Pool* threads() {
    const int wanted = options.threads > 0 ? options.threads : processors().usable();
    if (!pool && wanted > 1) pool = std::make_unique<Pool>(wanted);
    return pool.get();
  }
};

Array to_array(const Shape& shape, DType dtype, const void* from) {
  Array out(shape, dtype);
  if (shape.elements() > 0) std::memcpy(out.mutable_data(), from, size_t(shape.elements() * bytes(dtype)));
  return out;
}

bool is_zero(const void* memory, size_t bytes) {
  auto* first = static_cast<const char*>(memory);
  return bytes == 0 || (*first == 0 && std::memcmp(first, first + 1, bytes - 1) == 0);
}

int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
// The nanoseconds that reading the clock takes, about 20. Every measured time of a kernel includes them.
double reading_the_clock() {
  constexpr int kReadings = 1000;
  const int64_t start = nanoseconds();
  int64_t end = start;
  for (int k = 0; k < kReadings; ++k) end = nanoseconds();
  return double(end - start) / kReadings;
}

// The code of a program: all of it, or what it begins on.
using Code = std::variant<Compiled, std::shared_ptr<QuickStart>>;

class CcExecutable : public backend::Executable {
 public:
  CcExecutable(std::shared_ptr<const plan::Plan> plan, backend::Runnable runnable, Code code,
               std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)), plan_(std::move(plan)), runnable_(std::move(runnable)) {
    const ir::Program& program = plan_->program;
    step_.pool = runnable_.parallel ? shared_->threads() : nullptr;
    if (auto* quick = std::get_if<std::shared_ptr<QuickStart>>(&code)) {
      quick_start_ = std::move(*quick);
      quick_code_.used = true;
      use(quick_start_->quick());
    } else {
      use(std::get<Compiled>(std::move(code)));
    }
    try {
      arena_ = allocate(runnable_.arena_bytes);
    } catch (const std::bad_alloc&) {
      throw StateError("the program `" + program.name + "` needs " + std::to_string(runnable_.arena_bytes) +
                       " bytes for its buffers, more than this machine gives.");
    }
    buffers_.assign(size_t(runnable_.buffers), nullptr);
    for (const auto& place : runnable_.places) buffers_[size_t(place.buffer)] = arena_.get() + place.offset;
    for (const backend::LeafUse& use : runnable_.data) {
      const auto& data = std::get<ir::DataLeaf>(program.buffers[size_t(use.leaf)].kind);
      buffers_[size_t(use.buffer)] = const_cast<void*>(data.array.data());
    }
    states_ = {shared_->states, program, runnable_.states, allocate};
    step_.buffers = buffers_.data();
    step_.seed = shared_->options.seed;
    step_.owner = this;
    step_.library = [](void* owner, int64_t kernel) {
      static_cast<CcExecutable*>(owner)->call_library(size_t(kernel));
    };
    share(true);
  }

  void run(const std::vector<int64_t>& symbols) override {
    make_ready(symbols);
    step_.symbols = symbols.data();
    change_over();
    timed(1, [&] { run_(&step_); });
    if (quick_start_) ++quick_code_.steps;
    check_library();
    states_.note_assigned();
  }
  void run_steps(int64_t steps, std::vector<int64_t>& symbols, const std::vector<int64_t>& ranges) override {
    make_ready(symbols);
    step_.symbols = symbols.data();
    auto run_some = [&](int64_t some) {
      run_steps_(&step_, symbols.data(), ranges.data(), some);
      check_library();
    };
    change_over();
    for (int64_t some = 1; (quick_start_ || trial_) && steps > 0; change_over()) {
      some = std::min(some, steps);
      const int64_t enough = trial_ ? kTriedRun : kBetweenLooks, spent = timed(some, [&] { run_some(some); });
      if (quick_start_) quick_code_.steps += some;
      steps -= some;
      if (spent < enough) some *= 2;
    }
    if (steps > 0) run_some(steps);
    states_.note_assigned();
  }
  std::optional<std::vector<double>> run_timed(int64_t steps, std::vector<int64_t>& symbols,
                                               const std::vector<int64_t>& ranges) override {
    if (!timed_) {
      if (!plan_->made) plan_ = backend::plan_for(plan_->target, plan_->program, plan_->options);
      timed_ = compile(codegen::to_units(plan_->scheduled, codegen::Entries::timed).texts, shared_->options.compiler);
      run_timed_ = reinterpret_cast<RunTimed>(timed_->library->symbol(codegen::kTimedEntry));
    }
    make_ready(symbols);
    step_.symbols = symbols.data();
    if (trial_) share(true);
    std::vector<int64_t> spent(size_t(runnable_.kernels), 0);
    codegen::Laps laps{nanoseconds, nanoseconds(), spent.data()};
    for (int64_t s = 0; s < steps; ++s) {
      laps.last = nanoseconds();
      run_timed_(&step_, &laps);
      check_library();
      backend::next(symbols, ranges);
    }
    states_.note_assigned();
    const double reading = reading_the_clock();
    std::vector<double> out;
    for (const int64_t all : spent) out.push_back(std::max(0.0, double(all) - reading * double(steps)));
    return out;
  }

  const void* observed_memory(size_t which) const override { return buffers_[size_t(runnable_.observed[which])]; }
  Array observed(size_t which) const override {
    const ir::Buffer& b = plan_->program.buffers[size_t(plan_->program.observed[which])];
    return to_array(b.shape, b.dtype, observed_memory(which));
  }
  backend::Report report() const override {
    return {runnable_.arena_bytes, int(runnable_.kernels), compiled_.sources, compiled_.from_cache, quick_code_};
  }
  void finish_compiling() override {
    if (quick_start_) quick_start_->wait();
    change_over();
  }

 private:
  using Run = void (*)(const codegen::Step*);
  using RunTimed = void (*)(const codegen::Step*, codegen::Laps*);
  using RunSteps = void (*)(const codegen::Step*, int64_t*, const int64_t*, int64_t);

  void use(Compiled code) {
    compiled_ = std::move(code);
    run_ = reinterpret_cast<Run>(compiled_.library->symbol(codegen::kEntry));
    run_steps_ = reinterpret_cast<RunSteps>(compiled_.library->symbol(codegen::kManySteps));
    if (step_.pool) trial_.emplace();
  }
  // Do all threads share the loops of the next run?
  void share(bool all) {
    auto* run = +[](void* pool, Pool::Chunk chunk, const codegen::Step* step, int64_t chunks) {
      static_cast<Pool*>(pool)->run(chunk, step, chunks);
    };
    step_.parallel = all && step_.pool ? run : nullptr;
  }
  // Runs some steps, and returns how long they took.
  template <class Run>
  int64_t timed(int64_t steps, Run&& run) {
    if (!trial_ && !quick_start_) return run(), 0;
    if (trial_) share(trial_->shares());
    const int64_t start = nanoseconds();
    run();
    const int64_t spent = nanoseconds() - start;
    if (trial_) {
      trial_->note(steps, spent);
      if (trial_->is_over()) share(trial_->shares()), trial_.reset();
    }
    return spent;
  }
  // Between two runs: takes the better code if it is ready.
  void change_over() {
    if (!quick_start_ || !quick_start_->is_ready()) return;
    quick_code_.seconds = quick_start_->seconds(), quick_code_.problem = quick_start_->problem();
    if (quick_start_->better()) {
      use(*quick_start_->better());
      quick_code_.changed = true;
    }
    quick_start_.reset();
  }

  // An exception must not pass through the generated code: it is kept until the code returns. What follows it computes
  // from values that are not there, but nobody sees the results.
  void call_library(size_t kernel) noexcept {
    if (library_failed_) return;
    try {
      CARAVAN_CHECK(shared_->options.exchange, "the device is not one of a mesh");
      shared_->options.exchange->run(plan_->scheduled, kernel, buffers_.data());
    } catch (...) {
      library_failed_ = std::current_exception();
    }
  }
  void check_library() {
    if (library_failed_) std::rethrow_exception(std::exchange(library_failed_, nullptr));
  }

  // All checks come before the first change, so that a failure leaves the state as it was.
  void make_ready(const std::vector<int64_t>& symbols) {
    states_.make_ready(symbols, [&](BufferId id, const Memory& memory) { buffers_[size_t(id)] = memory.get(); });
  }
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<const plan::Plan> plan_;  // not made where the cache had the program
  backend::Runnable runnable_;
  Compiled compiled_;
  std::shared_ptr<QuickStart> quick_start_;  // until the program has changed over to better code
  QuickCode quick_code_;
  std::optional<Compiled> timed_;  // compiled when it is first needed
  RunTimed run_timed_ = nullptr;
  Run run_ = nullptr;
  RunSteps run_steps_ = nullptr;
  Memory arena_;
  std::vector<void*> buffers_;
  codegen::Step step_;
  std::optional<ThreadTrial> trial_;  // until it is known whether threads should share loops
  std::exception_ptr library_failed_;
  backend::UsedStates<Memory> states_;
};

class CcDevice : public backend::Device {
 public:
  CcDevice(const DeviceOptions& options, std::optional<CompilerOptions> to_test) : to_test_(std::move(to_test)) {
    shared_->options = options;
  }

  std::string name() const override { return "cpu"; }
  std::optional<Target> target() const override {
    if (!target_) target_ = target_of(shared_->options);
    return target_;
  }
  std::unique_ptr<backend::Executable> prepare(std::shared_ptr<const plan::Plan> plan) override {
    if (!to_test_) return compiled(plan);
    begin_test();
    auto out = compiled(plan);
    return takes_flags(test_.get()) ? compiled(plan) : std::move(out);
  }
  std::unique_ptr<backend::Executable> restore(std::shared_ptr<const plan::Plan> bare) override {
    auto out = restored(bare);
    if (!to_test_) return out;
    begin_test();
    if (!out) return nullptr;
    return takes_flags(test_.get()) ? restored(bare) : std::move(out);
  }
  std::optional<Peaks> peaks() override {
    return measure_peaks(*target(), shared_->threads(), shared_->options.compiler);
  }
  bool has(const std::string& state) const override { return shared_->states.has(state); }
  Array read(const std::string& state) const override {
    const State& s = shared_->states.at(state);
    return to_array(s.type.shape, s.type.dtype, s.memory.get());
  }
  void write(const std::string& state, const Array& value, DType dtype) override {
    State& s = shared_->states.declare(state, value.shape(), dtype, allocate);
    const Array elements = value.cast(dtype);
    if (elements.size() > 0) std::memcpy(s.memory.get(), elements.data(), size_t(elements.size() * bytes(dtype)));
    s.filled = true;
  }
  void fill(const std::string& state, const Shape& shape, DType dtype, const Fill& fill) override {
    State& s = shared_->states.declare(state, shape, dtype, allocate);
    fill(s.memory.get(), 0, shape.elements());
    s.filled = true;
  }
  void clear(const std::string& state, const Shape& shape, DType dtype) override {
    State& s = shared_->states.declare(state, shape, dtype, allocate);
    const auto all = size_t(shape.elements() * bytes(dtype));
    // Memory that is zero already is not touched: large blocks take up none before they are written to.
    if (!is_zero(s.memory.get(), all)) std::memset(s.memory.get(), 0, all);
    s.filled = true;
  }
  const void* memory(const std::string& state) const override { return shared_->states.at(state).memory.get(); }
  bool borrow(const std::string& state, const Shape& shape, DType dtype, void* memory) override {
    shared_->states.lend(state, shape, dtype, borrowed(memory));
    return true;
  }
  std::vector<std::string> names() const override { return shared_->states.names(); }

 private:
  std::unique_ptr<backend::Executable> compiled(const std::shared_ptr<const plan::Plan>& plan) {
    backend::Runnable runnable = backend::runnable(*plan);
    backend::NoteWriter note;
    backend::write(note, runnable);
    auto kept = [origin = backend::origin(*plan), note = note.text(),
                 compiler = shared_->options.compiler](const Compiled& code) {
      if (!origin.empty()) keep(origin, code, note, compiler);
    };
    return std::make_unique<CcExecutable>(plan, std::move(runnable), code_of(codegen::to_units(plan->scheduled), kept),
                                          shared_);
  }
  Code code_of(const codegen::Units& units, const std::function<void(const Compiled&)>& kept) const {
    const DeviceOptions& options = shared_->options;
    if (options.quick_start && pays_to_start_quickly(units, options.compiler, options.long_compilation) &&
        !find_compiled(units.texts, options.compiler))
      if (auto begun = QuickStart::begin(units.texts, options.compiler, kept)) return begun;
    Compiled out = compile(units.texts, options.compiler);
    kept(out);
    return out;
  }
  std::unique_ptr<backend::Executable> restored(const std::shared_ptr<const plan::Plan>& bare) {
    const std::string origin = backend::origin(*bare);
    auto kept = origin.empty() ? std::nullopt : find_kept(origin, shared_->options.compiler);
    if (!kept) return nullptr;
    backend::NoteReader note(kept->note);
    backend::Runnable runnable = read_runnable(note);
    if (!note.is_right()) return nullptr;
    return std::make_unique<CcExecutable>(bare, std::move(runnable), std::move(kept->compiled), shared_);
  }
  // The compiler is tested while the plan of the program is made and compiled. Its code does not run before the test
  // has passed.
  void begin_test() {
    if (!test_.valid()) test_ = std::async([options = *to_test_] { return tested(options); });
  }
  // After the self-test: takes the flags that passed it. Are they others than before?
  bool takes_flags(CompilerOptions passed) {
    to_test_.reset();
    if (passed.flags == shared_->options.compiler.flags) return false;
    shared_->options.compiler = std::move(passed);
    return true;
  }

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  mutable std::optional<Target> target_;    // found when it is first asked for
  std::optional<CompilerOptions> to_test_;  // until its self-test has passed
  std::future<CompilerOptions> test_;       // valid while it runs
};

}  // namespace

Target target_of(const DeviceOptions& options) {
  Target out = host(options.threads);
  if (options.tuning) out.tuning = *options.tuning;
  return with_allowed_vectors(out, options.compiler);
}
std::unique_ptr<backend::Device> make_device(const DeviceOptions& options) {
  return std::make_unique<CcDevice>(options, options.compiler);
}
std::unique_ptr<backend::Device> make_untested_device(const DeviceOptions& options) {
  return std::make_unique<CcDevice>(options, std::nullopt);
}

}  // namespace caravan::cc
