#include "checked_device.h"

#include <gtest/gtest.h>

#include <cmath>

#include "caravan/backend/cc/device.h"
#include "caravan/backend/interp/device.h"
#include "compiled_device.h"
#include "forwarding_device.h"

namespace caravan {
namespace {

// One run: what it was given, what came out, and the test it was in.
struct CheckedRun {
  Task task;
  Outcome expected;
  uint64_t seed;
  std::string test;
};
std::vector<CheckedRun>& checked_runs() {
  static std::vector<CheckedRun> runs;
  return runs;
}

class CheckedDevice : public ForwardingDevice {
 public:
  explicit CheckedDevice(uint64_t seed) : ForwardingDevice(interp::make_device(seed)), seed_(seed) {}
  std::unique_ptr<backend::Executable> prepare(std::shared_ptr<const plan::Plan> plan) override {
    return std::make_unique<Kept>(*this, plan->program, device_->prepare(plan));
  }

 private:
  class Kept : public backend::Executable {
   public:
    Kept(CheckedDevice& device, const ir::Program& program, std::unique_ptr<backend::Executable> executable)
        : device_(device), program_(program), executable_(std::move(executable)) {}
    void run(const std::vector<int64_t>& symbols) override {
      if (kept_ == (program_.assignments.empty() ? 1 : 2))
        return executable_->run(symbols);  // before the state changed and after
      CheckedRun kept{
          {program_, {}, symbols}, {}, device_.seed_, testing::UnitTest::GetInstance()->current_test_info()->name()};
      for (const ir::Buffer& b : program_.buffers)
        if (std::holds_alternative<ir::StateLeaf>(b.kind) && device_.has(b.name))
          kept.task.states[b.name] = device_.read(b.name);
      executable_->run(symbols);
      ++kept_;
      for (size_t k = 0; k < program_.observed.size(); ++k) kept.expected.observed.push_back(executable_->observed(k));
      for (const auto& a : program_.assignments) {
        const std::string& name = program_.buffers[size_t(a.state)].name;
        kept.expected.states[name] = device_.read(name);
      }
      checked_runs().push_back(std::move(kept));
    }
    Array observed(size_t which) const override { return executable_->observed(which); }

   private:
    CheckedDevice& device_;
    ir::Program program_;
    std::unique_ptr<backend::Executable> executable_;
    int kept_ = 0;
  };
  uint64_t seed_;
};

// Has it floats of less than f64, and none that are narrower than f32? (Narrow floats round at every store, which the
// interpreter does not; cpu_test.cpp has them.)
bool is_single(const Task& task) {
  bool single = false;
  for (const ir::Buffer& b : task.program.buffers) {
    if (b.dtype == DType::f16 || b.dtype == DType::bf16) return false;
    single = single || b.dtype == DType::f32;
  }
  return single;
}

class CheckOnTheProcessor : public testing::Environment {
 public:
  void TearDown() override {
    std::map<uint64_t, std::vector<const CheckedRun*>> by_seed;
    for (const CheckedRun& run : checked_runs()) by_seed[run.seed].push_back(&run);
    for (const auto& [seed, runs] : by_seed) {
      compare(runs, seed, true, 1e-12);
      std::vector<const CheckedRun*> single;
      for (const CheckedRun* run : runs)
        if (is_single(run->task)) single.push_back(run);
      compare(single, seed, false, 1e-5);
    }
    checked_runs().clear();
  }

 private:
  static constexpr size_t kTogether = 64;

  // The largest number that the program computes on its way. What is left of a difference in f32 is only as good as
  // that.
  static double magnitude(const CheckedRun& run) {
    Task task = run.task;
    task.program.observed.clear(), task.program.assignments.clear();
    for (const ir::Accumulation& a : task.program.accumulations)
      if (is_float(task.program.buffers[size_t(a.target)].dtype)) task.program.observed.push_back(a.target);
    double out = 0;
    for (const Array& value : run_on(*interp::make_device(run.seed), task).observed)
      out = std::max(out, largest(value));
    return out;
  }
  static double largest(const Array& value) {
    double out = 0;
    for (double v : value.values())
      if (std::isfinite(v)) out = std::max(out, std::abs(v));
    return out;
  }

  static void compare(const std::vector<const CheckedRun*>& runs, uint64_t seed, bool wide, double tolerance) {
    for (size_t from = 0; from < runs.size(); from += kTogether) {
      const size_t end = std::min(runs.size(), from + kTogether);
      std::vector<Task> tasks;
      for (size_t k = from; k < end; ++k) tasks.push_back(wide ? in_f64(runs[k]->task) : runs[k]->task);
      static const TemporaryFolder cache;
      cc::DeviceOptions options;
      options.seed = seed, options.compiler.cache = cache.path;
      options.compiler.flags.push_back("-O0");  // what -O3 makes of it is cpu_test's
      const Outcome actual = run_on(*compiled_device(options), joined(tasks));
      size_t observed = 0;
      for (size_t k = from; k < end; ++k) {
        const std::string prefix = "t" + std::to_string(k - from) + ".",
                          what = runs[k]->test + (wide ? ", in f64: " : ", in f32: ");
        const Outcome& expected = runs[k]->expected;
        auto expect_near = [&](const Array& actual, const Array& expected, const std::string& name) {
          ASSERT_EQ(to_string(actual.shape()), to_string(expected.shape())) << what << name;
          double allowed =
              tolerance * largest(expected);  // errors of a sum are relative to its terms, not to what is left of them
          for (int64_t i = 0; i < expected.size(); ++i) {
            const double a = actual.at(i), e = expected.at(i);
            if (a == e || (std::isnan(a) && std::isnan(e)) || std::abs(a - e) <= allowed) continue;
            if (!wide) allowed = std::max(allowed, 1e-6 * magnitude(*runs[k]));
            ASSERT_LE(std::abs(a - e), allowed)
                << what << name << ", element " << i << ": " << a << " compiled, " << e << " interpreted";
          }
        };
        for (size_t o = 0; o < expected.observed.size(); ++o) {
          const auto& p = runs[k]->task.program;
          expect_near(actual.observed[observed++], expected.observed[o], p.buffers[size_t(p.observed[o])].name);
        }
        for (const auto& [name, value] : expected.states) expect_near(actual.states.at(prefix + name), value, name);
      }
    }
  }
};
testing::Environment* const kCheckOnTheProcessor = testing::AddGlobalTestEnvironment(new CheckOnTheProcessor);

}  // namespace

ContextOptions checked(ContextOptions options) {
  options.make_device = [](const ContextOptions& o) { return std::make_unique<CheckedDevice>(o.seed); };
  return options;
}

Task in_f64(Task task) {
  for (ir::Accumulation& a : task.program.accumulations) {
    std::vector<DType> dtypes;
    for (const ir::Operand& o : a.operands) dtypes.push_back(task.program.buffers[size_t(o.buffer)].dtype);
    const std::vector<ir::EntryType> types = ir::types_of(a.body, dtypes, {});
    a.body = rewritten(a.body, [&](ir::Body& body, const ir::Scalar& s, size_t at, std::vector<int> args) {
      // Integers that meet as floats, and what was cast to a float, are computed with in f64.
      if (s.kind == ir::Scalar::Kind::apply && is_float(types[at].compute))
        for (size_t k = row(s.op).result == ResultType::select ? 1 : 0; k < args.size(); ++k)
          if (!types[size_t(s.args[k])].weak) args[k] = body.cast(DType::f64, args[k]);
      return args;
    });
  }
  for (ir::Buffer& b : task.program.buffers) {
    if (!is_float(b.dtype)) continue;
    if (auto* data = std::get_if<ir::DataLeaf>(&b.kind))
      data->array = data->number ? Array(b.shape, {*data->number}, DType::f64) : data->array.cast(DType::f64);
    b.dtype = DType::f64;
  }
  return task;
}

}  // namespace caravan
