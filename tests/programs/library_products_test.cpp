// Products that a library computes on a GPU, compared with the interpreter: every layout that the pass makes calls of,
// in every precision, with computed factors and with what follows the sums. Skipped where there is no GPU or library.
#include <gtest/gtest.h>

#include <cmath>

#include "caravan/backend/interp/device.h"
#include "caravan/plan/plan.h"
#include "compiled_device.h"
#include "forwarding_device.h"
#include "programs.h"

namespace caravan {
namespace {

// A GPU on which every product is a call.
class CallingDevice : public ForwardingDevice {
 public:
  explicit CallingDevice(bool tf32)
      : ForwardingDevice(cuda::make_device({.seed = 7, .cache = cache().path, .tf32 = tf32})) {}
  std::optional<Target> target() const override {
    Target out = *device_->target();
    out.gpu.called_f32 = out.gpu.called_tf32 = out.gpu.called_narrow = {1, 0};
    return out;
  }

 private:
  static const TemporaryFolder& cache() {
    static const TemporaryFolder folder;
    return folder;
  }
};

class LibraryProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!on_gpu()) GTEST_SKIP() << "it needs a GPU (CARAVAN_TEST_DEVICE=cuda)";
    if (!cuda::make_device({})->target()->gpu.library_products) GTEST_SKIP() << cuda::library_note();
  }
};

Array numbers(const std::string& shape, DType dtype) {
  Array out(parse_shape(shape), dtype);
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, 0.02 * double((i * 7919 + 13) % 101 - 50));
  return out;
}

struct Product {
  const char* name;
  std::function<Tensor(DType)> result;
  int calls = 1;
};
const Product kCases[] = {
    {"rows by columns",
     [](DType t) {
       return einsum("i,k; k,o => i,o", param("x", numbers("40,24", t)), param("w", numbers("24,56", t)));
     }},
    {"the left factor transposed",
     [](DType t) {
       return einsum("k,i; k,o => i,o", param("x", numbers("24,40", t)), param("w", numbers("24,56", t)));
     }},
    {"the right factor transposed",
     [](DType t) {
       return einsum("i,k; o,k => i,o", param("x", numbers("40,24", t)), param("w", numbers("56,24", t)));
     }},
    {"both transposed",
     [](DType t) {
       return einsum("k,i; o,k => i,o", param("x", numbers("24,40", t)), param("w", numbers("56,24", t)));
     }},
    {"sizes that nothing divides",
     [](DType t) {
       return einsum("i,k; k,o => i,o", param("x", numbers("37,29", t)), param("w", numbers("29,53", t)));
     }},
    {"a batch",
     [](DType t) {
       return einsum("b,i,k; b,k,o => b,i,o", param("x", numbers("3,40,24", t)), param("w", numbers("3,24,56", t)));
     }},
    {"heads side by side",
     [](DType t) {
       return einsum("s,h,d; t,h,d => h,s,t", param("q", numbers("40,3,16", t)), param("k", numbers("40,3,16", t)));
     }},
    {"a part of a tensor, which begins at an odd place",
     [](DType t) {
       return einsum("i,k; k,o => i,o", einsum("i,3^k => i,k", param("x", numbers("40,27", t))),
                     param("w", numbers("24,56", t)));
     }},
    {"a computed factor, and what follows the sum",
     [](DType t) {
       const Tensor x = cast(tanh(param("x", numbers("40,24", DType::f32))), t), w = param("w", numbers("24,56", t));
       return cast(tanh(einsum("i,k; k,o => i,o", x, w)), DType::f32) + param("b", numbers("40,56", DType::f32));
     }},
    {"a product of a product",
     [](DType t) {
       const Tensor y = einsum("i,k; k,o => i,o", param("x", numbers("40,24", t)), param("w", numbers("24,56", t)));
       return einsum("i,o; o,p => i,p", y, param("v", numbers("56,32", t)));
     },
     2},
};

void expect_near_double(DType dtype, bool tf32, double tolerance) {
  for (const Product& c : kCases) {
    SCOPED_TRACE(c.name);
    const Task task = task_of(observe(c.result(dtype)));
    CallingDevice device(tf32);
    const plan::Plan plan = plan::make_plan(task.program, *device.target());
    EXPECT_EQ(std::ranges::count_if(plan.scheduled.kernels,
                                    [](const loop::Kernel& k) { return loop::library_call(k) != nullptr; }),
              c.calls)
        << loop::to_string(plan.scheduled);
    const Array actual = run_on(device, task).observed[0], again = run_on(device, task, 3).observed[0],
                expected = run_on(*interp::make_device(7), task).observed[0];
    EXPECT_EQ(actual.values(), again.values()) << "the bits of two runs differ";
    double largest = 0;
    for (const double v : expected.values()) largest = std::max(largest, std::abs(v));
    for (int64_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(actual.at(i), expected.at(i), tolerance * largest) << "element " << i;
  }
}

TEST_F(LibraryProducts, InF32) { expect_near_double(DType::f32, false, 1e-6); }
TEST_F(LibraryProducts, InTf32) { expect_near_double(DType::f32, true, 2e-3); }
TEST_F(LibraryProducts, InBf16) { expect_near_double(DType::bf16, false, 1.0 / 64); }
TEST_F(LibraryProducts, InF16) { expect_near_double(DType::f16, false, 1.0 / 512); }

// The gradients of a model in several steps, in which weights change between the products that read them.
TEST_F(LibraryProducts, TrainingAgreesWithTheInterpreter) {
  const nn::Sequential net({nn::Linear("in", {.output = {48}}), nn::Tanh(), nn::Linear("out", {.output = {24}})});
  const Program step = train_step(
      nn::mse(net(tensor(numbers("32|20", DType::f32))), tensor(numbers("32|24", DType::f32))), sgd({.lr = 0.1}));
  const Task task = task_of(step);
  CallingDevice device(false);
  const Outcome actual = run_on(device, task, 5), expected = run_on(*interp::make_device(7), task, 5);
  for (const auto& [name, value] : expected.states)
    for (int64_t i = 0; i < value.size(); ++i) ASSERT_NEAR(actual.states.at(name).at(i), value.at(i), 1e-5) << name;
}

}  // namespace
}  // namespace caravan
