#include "caravan/backend/cc/device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "caravan/base/error.h"
#include "caravan/codegen/c.h"
#include "caravan/loop/walk.h"

namespace caravan::cc {

using ir::BufferId;

namespace {

constexpr int64_t kAlignment = 64;

struct AlignedDelete {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t(kAlignment)); }
};
using Memory = std::unique_ptr<std::byte[], AlignedDelete>;
Memory allocate(int64_t bytes) {
  size_t n = size_t(std::max<int64_t>(bytes, 1));
  Memory out(static_cast<std::byte*>(::operator new[](n, std::align_val_t(kAlignment))));
  std::memset(out.get(), 0, n);
  return out;
}

struct State {
  Shape shape;
  DType dtype = DType::f32;
  Memory memory;
  bool filled = false;
};
struct Store {
  DeviceOptions options;
  std::map<std::string, State> states;

  State& declare(const std::string& name, const Shape& shape, DType dtype) {
    State& s = states[name];
    if (!s.memory || s.shape.elements() != shape.elements() || s.dtype != dtype) {
      s.memory = allocate(shape.elements() * bytes(dtype));
      s.filled = false;
    }
    s.shape = shape, s.dtype = dtype;
    return s;
  }
};

Array to_array(const Shape& shape, DType dtype, const void* from) {
  Array out(shape, dtype);
  std::memcpy(out.mutable_data(), from, size_t(shape.elements() * bytes(dtype)));
  return out;
}

class CcExecutable : public backend::Executable {
 public:
  CcExecutable(const ir::Program& program, std::shared_ptr<Store> store) : store_(std::move(store)) {
    module_ = passes::run(program, store_->options.passes).module;
    const ir::Program& p = module_.program;
    MemoryPlan plan = plan_memory(module_);
    if (store_->options.memory_limit > 0 && plan.bytes > store_->options.memory_limit)
      throw StateError("the program `" + p.name + "` needs " + std::to_string(plan.bytes) + " bytes for its buffers, more than the limit of " + std::to_string(store_->options.memory_limit) + ".");
    compiled_ = compile(codegen::to_c(module_), store_->options.compiler);
    run_ = reinterpret_cast<Run>(compiled_.library->symbol(codegen::kEntry));
    arena_ = allocate(plan.bytes);
    buffers_.assign(p.buffers.size(), nullptr);
    for (const Placement& place : plan.placements) buffers_[size_t(place.buffer)] = arena_.get() + place.offset;

    std::set<BufferId> read;
    for (const loop::Kernel& kernel : module_.kernels)
      loop::for_each_access(kernel.body, [&](const loop::Access& a) { if (!a.write) read.insert(a.buffer); });
    std::set<BufferId> assigned;
    for (const auto& a : program.assignments) assigned_.push_back(program.buffers[size_t(a.state)].name);
    for (size_t b = 0; b < p.buffers.size(); ++b) {
      const ir::Buffer& buffer = p.buffers[b];
      if (auto* data = std::get_if<ir::DataLeaf>(&buffer.kind)) buffers_[b] = const_cast<void*>(data->array.data());
      if (std::holds_alternative<ir::StateLeaf>(buffer.kind)) states_.push_back({BufferId(b), &store_->declare(buffer.name, buffer.shape, buffer.dtype), read.count(BufferId(b)) > 0});
    }
  }

  void run(const std::vector<int64_t>& symbols) override {
    const ir::Program& p = module_.program;
    for (size_t k = 0; k < symbols.size(); ++k)
      if (int64_t range = p.symbols[k].range; symbols[k] < 0 || (range > 0 && symbols[k] >= range)) refuse_symbol(k, symbols[k]);
    for (const auto& s : states_) {
      if (s.read && !s.state->filled)
        throw StateError("state `" + p.buffers[size_t(s.buffer)].name + "` was never initialised; write it, or run a program that assigns it, before `" + p.name + "`.");
      buffers_[size_t(s.buffer)] = s.state->memory.get();
    }
    run_(buffers_.data(), symbols.data(), store_->options.seed);
    if (!ran_)
      for (const std::string& name : assigned_) store_->states[name].filled = true;
    ran_ = true;
  }

  Array observed(size_t which) const override {
    const ir::Program& p = module_.program;
    const ir::Buffer& b = p.buffers[size_t(p.observed[which])];
    return to_array(b.shape, b.dtype, buffers_[size_t(p.observed[which])]);
  }

 private:
  using Run = void (*)(void* const*, const int64_t*, uint64_t);
  struct StateSlot {
    BufferId buffer;
    State* state;
    bool read;
  };
  [[noreturn]] void refuse_symbol(size_t k, int64_t value) const {
    const ir::Symbol& symbol = module_.program.symbols[k];
    throw StateError("symbol `" + symbol.name + "` is " + std::to_string(value) + ", but must be " +
                     (symbol.range > 0 ? "in 0.." + std::to_string(symbol.range - 1) : std::string("at least 0")) + ".");
  }

  std::shared_ptr<Store> store_;
  loop::Module module_;
  Compiled compiled_;
  Run run_ = nullptr;
  Memory arena_;
  std::vector<void*> buffers_;
  std::vector<StateSlot> states_;
  std::vector<std::string> assigned_;
  bool ran_ = false;
};

class CcDevice : public backend::Device {
 public:
  explicit CcDevice(const DeviceOptions& options) { store_->options = options; }

  std::string name() const override { return "cpu"; }
  std::unique_ptr<backend::Executable> prepare(const ir::Program& program) override { return std::make_unique<CcExecutable>(program, store_); }
  bool has(const std::string& state) const override {
    auto at = store_->states.find(state);
    return at != store_->states.end() && at->second.filled;
  }
  Array read(const std::string& state) const override {
    const State& s = store_->states.at(state);
    return to_array(s.shape, s.dtype, s.memory.get());
  }
  void write(const std::string& state, const Array& value, DType dtype) override {
    State& s = store_->declare(state, value.shape(), dtype);
    for (int64_t i = 0; i < value.size(); ++i) store(dtype, s.memory.get(), i, value.at(i));
    s.filled = true;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const auto& [name, s] : store_->states)
      if (s.filled) out.push_back(name);
    return out;
  }

 private:
  std::shared_ptr<Store> store_ = std::make_shared<Store>();
};

}  // namespace

// First fit, in the order of first use: a buffer takes the lowest gap that is free for as long as it lives.
MemoryPlan plan_memory(const loop::Module& module) {
  const ir::Program& p = module.program;
  std::map<BufferId, Placement> lives;
  for (size_t k = 0; k < module.kernels.size(); ++k)
    loop::for_each_access(module.kernels[k].body, [&](const loop::Access& a) {
      const ir::Buffer& b = p.buffers[size_t(a.buffer)];
      if (!std::holds_alternative<ir::Computed>(b.kind)) return;
      auto [at, added] = lives.try_emplace(a.buffer, Placement{a.buffer, 0, b.shape.elements() * bytes(b.dtype), int(k), int(k)});
      at->second.last = int(k);
    });
  for (BufferId id : p.observed)
    if (auto at = lives.find(id); at != lives.end()) at->second.last = int(module.kernels.size());
  for (const auto& a : p.assignments)
    if (auto at = lives.find(a.value); at != lives.end()) at->second.last = int(module.kernels.size());

  MemoryPlan plan;
  for (auto& [id, place] : lives) plan.placements.push_back(place);
  std::stable_sort(plan.placements.begin(), plan.placements.end(), [](const Placement& a, const Placement& b) { return a.first < b.first; });
  std::vector<const Placement*> placed;
  for (Placement& place : plan.placements) {
    int64_t size = (place.bytes + kAlignment - 1) / kAlignment * kAlignment;
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const Placement* other : placed)
      if (other->last >= place.first && other->first <= place.last) taken.push_back({other->offset, other->offset + (other->bytes + kAlignment - 1) / kAlignment * kAlignment});
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (auto [from, to] : taken) {
      if (at + size <= from) break;
      at = std::max(at, to);
    }
    place.offset = at;
    plan.bytes = std::max(plan.bytes, at + size);
    placed.push_back(&place);
  }
  return plan;
}

std::unique_ptr<backend::Device> make_device(const DeviceOptions& options) { return std::make_unique<CcDevice>(options); }

}  // namespace caravan::cc
