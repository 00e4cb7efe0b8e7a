#include "caravan/backend/interp/device.h"

#include "caravan/backend/interp/interp.h"
#include "caravan/base/error.h"

namespace caravan::interp {

namespace {

// What the device and its executables share. Floats are kept and returned in double, so that reading and writing a
// state does not round.
struct Shared {
  State values;
  uint64_t seed = 0;
  std::shared_ptr<backend::Exchange> exchange{};  // if the device is one of a mesh
};

class InterpExecutable : public backend::Executable {
 public:
  InterpExecutable(std::shared_ptr<const plan::Plan> plan, std::shared_ptr<Shared> shared)
      : plan_(std::move(plan)), shared_(std::move(shared)) {}

  void run(const std::vector<int64_t>& symbols) override {
    results_ = interp::run(plan_->program, shared_->values, symbols, shared_->seed, shared_->exchange.get());
  }
  Array observed(size_t which) const override { return results_[which]; }

 private:
  std::shared_ptr<const plan::Plan> plan_;
  std::shared_ptr<Shared> shared_;
  std::vector<Array> results_;
};

class InterpDevice : public backend::Device {
 public:
  InterpDevice(uint64_t seed, std::shared_ptr<backend::Exchange> exchange) {
    shared_->seed = seed, shared_->exchange = std::move(exchange);
  }

  std::string name() const override { return "interp"; }
  std::unique_ptr<backend::Executable> prepare(std::shared_ptr<const plan::Plan> plan) override {
    return std::make_unique<InterpExecutable>(std::move(plan), shared_);
  }
  bool has(const std::string& state) const override { return shared_->values.count(state) > 0; }
  Array read(const std::string& state) const override { return shared_->values.at(state); }
  void write(const std::string& state, const Array& value, DType dtype) override {
    shared_->values.insert_or_assign(state, value.cast(kept_type(dtype)));
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const auto& [name, values] : shared_->values) out.push_back(name);
    return out;
  }

 private:
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace

std::unique_ptr<backend::Device> make_device(uint64_t seed, std::shared_ptr<backend::Exchange> exchange) {
  return std::make_unique<InterpDevice>(seed, std::move(exchange));
}

}  // namespace caravan::interp
