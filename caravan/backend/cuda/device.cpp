#include "caravan/backend/cuda/device.h"

#include <thread>
#include <utility>

#include "caravan/backend/cuda/compile.h"
#include "caravan/backend/cuda/draw.h"
#include "caravan/backend/cuda/executable.h"
#include "caravan/target/initial_values.h"

namespace caravan::cuda {

namespace {

using State = backend::States<Memory>::State;

class CudaDevice : public backend::Device {
 public:
  explicit CudaDevice(const DeviceOptions& options) {
    nvrtc();  // without a compiler there is no device
    opening_ = std::jthread(cublas_lt);
    shared_->options = options;
    shared_->gpu = std::make_shared<Gpu>(options.ordinal);
  }

  ~CudaDevice() override {
    try {  // what fill() copies may be under way; after an error of the GPU nothing is
      shared_->gpu->wait();
    } catch (const BackendError&) {
    }
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::string name() const override {
    return shared_->options.ordinal == 0 ? "cuda" : "cuda:" + std::to_string(shared_->options.ordinal);
  }
  std::optional<Target> target() const override {
    Target out = shared_->gpu->target();
    out.gpu.tf32 = shared_->options.tf32;
    out.gpu.library_products = cublas_lt() != nullptr;
    return out;
  }
  std::unique_ptr<backend::Executable> prepare(std::shared_ptr<const plan::Plan> plan) override {
    return make_executable(std::move(plan), shared_);
  }
  std::unique_ptr<backend::Executable> restore(std::shared_ptr<const plan::Plan> bare) override {
    return restored_executable(std::move(bare), shared_);
  }
  std::optional<Peaks> peaks() override { return shared_->gpu->peaks(); }
  bool has(const std::string& state) const override { return shared_->states.has(state); }
  Array read(const std::string& state) const override {
    const State& s = shared_->states.at(state);
    return to_array(*shared_->gpu, s.type.shape, s.type.dtype, s.memory.address());
  }
  void write(const std::string& state, const Array& value, DType dtype) override {
    State& s =
        shared_->states.declare(state, value.shape(), dtype, [&](int64_t bytes) { return shared_->allocate(bytes); });
    const Array elements = value.cast(dtype);
    shared_->gpu->upload(s.memory.address(), elements.data(), elements.size() * bytes(dtype));
    s.filled = true;
  }
  bool draw(const std::string& state, const Shape& shape, DType dtype, const Drawing& drawing) override {
    if (shape.elements() < kDrawnOnGpu || !Drawer::draws(dtype)) return false;
    State& s = shared_->states.declare(state, shape, dtype, [&](int64_t bytes) { return shared_->allocate(bytes); });
    if (!drawer_) drawer_ = std::make_unique<Drawer>(*shared_->gpu, CompileOptions{.cache = shared_->options.cache});
    drawer_->draw(s.memory.address(), dtype, shape.elements(), drawing);
    return s.filled = true;
  }
  // Large values come in pieces: while one is copied to the GPU, the next is computed into other memory.
  void fill(const std::string& state, const Shape& shape, DType dtype, const Fill& fill) override {
    const int64_t size = bytes(dtype), all = shape.elements(), most = kStagedBytes / size;
    if (all * size < kStagedAtLeast) return backend::Device::fill(state, shape, dtype, fill);
    State& s = shared_->states.declare(state, shape, dtype, [&](int64_t bytes) { return shared_->allocate(bytes); });
    for (int64_t first = 0; first < all; first += most) {
      const int64_t count = std::min(most, all - first);
      std::swap(staged_, under_way_);
      if (!staged_.get()) staged_ = HostMemory(*shared_->gpu, kStagedBytes);
      fill(staged_.get(), first, first + count);
      shared_->gpu->wait();  // for the piece before
      shared_->gpu->upload_later(s.memory.address() + Address(first * size), staged_.get(), count * size);
    }
    s.filled = true;
  }
  void clear(const std::string& state, const Shape& shape, DType dtype) override {
    State& s = shared_->states.declare(state, shape, dtype, [&](int64_t bytes) { return shared_->allocate(bytes); });
    shared_->gpu->clear(s.memory.address(), shape.elements() * bytes(dtype));
    s.filled = true;
  }
  std::vector<std::string> names() const override { return shared_->states.names(); }

 private:
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::unique_ptr<Drawer> drawer_;  // null until a state is drawn
  HostMemory staged_, under_way_;   // of fill()
  std::jthread opening_;            // the library of products is large: it is opened while the GPU makes itself ready
};

}  // namespace

std::unique_ptr<backend::Device> make_device(const DeviceOptions& options) {
  return std::make_unique<CudaDevice>(options);
}

}  // namespace caravan::cuda
