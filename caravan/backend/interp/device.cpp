#include "caravan/backend/interp/device.h"

#include "caravan/backend/interp/interp.h"
#include "caravan/base/error.h"

namespace caravan::interp {

namespace {

// Floats are handed out in double: a read and a write must not round.
DType outside(DType dtype) { return is_float(dtype) ? DType::f64 : dtype; }

struct Store {
  State values;
  struct Info {
    Shape shape;
    DType dtype;
  };
  std::map<std::string, Info> info;
  uint64_t seed = 0;
};

class InterpExecutable : public backend::Executable {
 public:
  InterpExecutable(const ir::Program& program, std::shared_ptr<Store> store)
      : program_(program), store_(std::move(store)) {}

  void run(const std::vector<int64_t>& symbols) override {
    results_ = interp::run(program_, store_->values, symbols, store_->seed);
    for (const auto& a : program_.assignments) {
      const ir::Buffer& b = program_.buffers[size_t(a.state)];
      store_->info[b.name] = {b.shape, b.dtype};
    }
  }
  Array observed(size_t which) const override {
    const ir::Buffer& b = program_.buffers[size_t(program_.observed[which])];
    return Array(b.shape, results_[which], outside(b.dtype));
  }

 private:
  ir::Program program_;
  std::shared_ptr<Store> store_;
  std::vector<Values> results_;
};

class InterpDevice : public backend::Device {
 public:
  explicit InterpDevice(uint64_t seed) { store_->seed = seed; }

  std::string name() const override { return "interp"; }
  std::unique_ptr<backend::Executable> prepare(const ir::Program& program) override {
    return std::make_unique<InterpExecutable>(program, store_);
  }
  bool has(const std::string& state) const override { return store_->values.count(state) > 0; }
  Array read(const std::string& state) const override {
    const Store::Info& info = store_->info.at(state);
    return Array(info.shape, store_->values.at(state), outside(info.dtype));
  }
  void write(const std::string& state, const Array& value, DType dtype) override {
    store_->values[state] = value.values();
    store_->info[state] = {value.shape(), dtype};
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const auto& [name, values] : store_->values) out.push_back(name);
    return out;
  }

 private:
  std::shared_ptr<Store> store_ = std::make_shared<Store>();
};

}  // namespace

std::unique_ptr<backend::Device> make_device(uint64_t seed) { return std::make_unique<InterpDevice>(seed); }

}  // namespace caravan::interp
