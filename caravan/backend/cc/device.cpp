#include "caravan/backend/cc/device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "caravan/backend/cc/pool.h"
#include "caravan/backend/cc/self_test.h"
#include "caravan/backend/cc/untested_device.h"
#include "caravan/base/error.h"
#include "caravan/base/processors.h"
#include "caravan/codegen/c.h"
#include "caravan/loop/walk.h"

namespace caravan::cc {

using ir::BufferId;

namespace {

constexpr int64_t kAlignment = 64;

struct AlignedDelete {
  bool owned = true;  // not lent
  void operator()(std::byte* p) const {
    if (owned) ::operator delete[](p, std::align_val_t(kAlignment));
  }
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
// Functions that go into one text: small programs are one text, so that their kernels are compiled as a whole.
constexpr size_t kFunctionsPerUnit = 16;

struct Store {
  DeviceOptions options;
  std::map<std::string, State> states;
  std::unique_ptr<Pool> pool;  // made for the first program with parallel loops

  Pool* threads() {
    const int wanted = options.threads > 0 ? options.threads : processors().usable();
    if (!pool && wanted > 1) pool = std::make_unique<Pool>(wanted);
    return pool.get();
  }

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
  if (shape.elements() > 0) std::memcpy(out.mutable_data(), from, size_t(shape.elements() * bytes(dtype)));
  return out;
}

class CcExecutable : public backend::Executable {
 public:
  CcExecutable(const ir::Program& program, std::shared_ptr<Store> store) : store_(std::move(store)) {
    module_ = passes::run(program, store_->options.passes).module;
    const ir::Program& p = module_.program;
    MemoryPlan plan = plan_memory(module_);
    if (store_->options.memory_limit > 0 && plan.bytes > store_->options.memory_limit)
      throw StateError("the program `" + p.name + "` needs " + std::to_string(plan.bytes) +
                       " bytes for its buffers, more than the limit of " +
                       std::to_string(store_->options.memory_limit) + ".");
    compiled_ = compile(codegen::to_units(module_, kFunctionsPerUnit), store_->options.compiler);
    run_ = reinterpret_cast<Run>(compiled_.library->symbol(codegen::kEntry));
    run_steps_ = reinterpret_cast<RunSteps>(compiled_.library->symbol(codegen::kManySteps));
    try {
      arena_ = allocate(plan.bytes), arena_bytes_ = plan.bytes;
    } catch (const std::bad_alloc&) {
      throw StateError("the program `" + p.name + "` needs " + std::to_string(plan.bytes) +
                       " bytes for its buffers, more than this machine gives.");
    }
    buffers_.assign(p.buffers.size(), nullptr);
    for (const Placement& place : plan.placements) buffers_[size_t(place.buffer)] = arena_.get() + place.offset;

    std::vector<bool> read(p.buffers.size(), false);
    for (const loop::Kernel& kernel : module_.kernels)
      loop::for_each_access(kernel.body, [&](const loop::Access& a) {
        if (!a.write) read[size_t(a.buffer)] = true;
      });
    std::set<std::string> assigned;
    for (const auto& a : program.assignments) assigned.insert(program.buffers[size_t(a.state)].name);
    for (size_t b = 0; b < p.buffers.size(); ++b) {
      const ir::Buffer& buffer = p.buffers[b];
      if (auto* data = std::get_if<ir::DataLeaf>(&buffer.kind)) buffers_[b] = const_cast<void*>(data->array.data());
      if (std::holds_alternative<ir::StateLeaf>(buffer.kind))
        states_.push_back({BufferId(b), &store_->declare(buffer.name, buffer.shape, buffer.dtype), bool(read[b]),
                           assigned.count(buffer.name) > 0});
    }
    step_.buffers = buffers_.data();
    step_.seed = store_->options.seed;
    const bool parallel = std::any_of(module_.kernels.begin(), module_.kernels.end(),
                                      [](const loop::Kernel& kernel) { return loop::parallel_loop(kernel); });
    if (Pool* pool = parallel ? store_->threads() : nullptr) {
      step_.pool = pool;
      step_.parallel = [](void* pool, Pool::Chunk chunk, const codegen::Step* step, int64_t chunks) {
        static_cast<Pool*>(pool)->run(chunk, step, chunks);
      };
    }
  }

  void run(const std::vector<int64_t>& symbols) override {
    make_ready(symbols);
    step_.symbols = symbols.data();
    run_(&step_);
    note_assigned();
  }
  void run_steps(int64_t steps, std::vector<int64_t>& symbols, const std::vector<int64_t>& ranges) override {
    make_ready(symbols);
    step_.symbols = symbols.data();
    run_steps_(&step_, symbols.data(), ranges.data(), steps);
    note_assigned();
  }

  Array observed(size_t which) const override {
    const ir::Program& p = module_.program;
    const ir::Buffer& b = p.buffers[size_t(p.observed[which])];
    return to_array(b.shape, b.dtype, buffers_[size_t(p.observed[which])]);
  }
  backend::Report report() const override {
    return {arena_bytes_, int(module_.kernels.size()), compiled_.sources, compiled_.from_cache};
  }

 private:
  using Run = void (*)(const codegen::Step*);
  using RunSteps = void (*)(const codegen::Step*, int64_t*, const int64_t*, int64_t);
  struct StateSlot {
    BufferId buffer;
    State* state;
    bool read, assigned;
  };

  // Everything that can fail comes before the first change.
  void make_ready(const std::vector<int64_t>& symbols) {
    const ir::Program& p = module_.program;
    for (size_t k = 0; k < symbols.size(); ++k)
      if (int64_t range = p.symbols[k].range; symbols[k] < 0 || (range > 0 && symbols[k] >= range))
        refuse_symbol(k, symbols[k]);
    for (const StateSlot& s : states_) {
      const ir::Buffer& buffer = p.buffers[size_t(s.buffer)];
      if (s.read && !s.state->filled)
        throw StateError("state `" + buffer.name +
                         "` was never initialised; write it, or run a program that assigns it, before `" + p.name +
                         "`.");
      if (s.state->dtype != buffer.dtype || s.state->shape.elements() != buffer.shape.elements())
        throw StateError("state `" + buffer.name + "` has the shape `" + to_string(s.state->shape) +
                         "` and the precision " + std::string(caravan::name(s.state->dtype)) +
                         " since another program, but `" + p.name + "` was compiled for `" + to_string(buffer.shape) +
                         "`, " + std::string(caravan::name(buffer.dtype)) + "; compile it again.");
      buffers_[size_t(s.buffer)] = s.state->memory.get();
    }
  }
  void note_assigned() {
    for (const StateSlot& s : states_)
      if (s.assigned) s.state->filled = true;
  }
  [[noreturn]] void refuse_symbol(size_t k, int64_t value) const {
    const ir::Symbol& symbol = module_.program.symbols[k];
    throw StateError("the index `" + symbol.name + "` is " + std::to_string(value) + ", but must be " +
                     (symbol.range > 0 ? "in 0.." + std::to_string(symbol.range - 1) : std::string("at least 0")) +
                     ".");
  }

  std::shared_ptr<Store> store_;
  loop::Module module_;
  Compiled compiled_;
  Run run_ = nullptr;
  RunSteps run_steps_ = nullptr;
  Memory arena_;
  int64_t arena_bytes_ = 0;
  std::vector<void*> buffers_;
  codegen::Step step_;
  std::vector<StateSlot> states_;
};

class CcDevice : public backend::Device {
 public:
  CcDevice(const DeviceOptions& options, std::optional<CompilerOptions> to_test) : to_test_(std::move(to_test)) {
    store_->options = options;
  }

  std::string name() const override { return "cpu"; }
  std::unique_ptr<backend::Executable> prepare(const ir::Program& program) override {
    if (to_test_) store_->options.compiler = tested(*to_test_);
    return std::make_unique<CcExecutable>(program, store_);
  }
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
    const Array elements = value.cast(dtype);
    if (elements.size() > 0) std::memcpy(s.memory.get(), elements.data(), size_t(elements.size() * bytes(dtype)));
    s.filled = true;
  }
  void fill(const std::string& state, const Shape& shape, DType dtype,
            const std::function<void(void*)>& fill) override {
    State& s = store_->declare(state, shape, dtype);
    fill(s.memory.get());
    s.filled = true;
  }
  void lend(const std::string& state, const Shape& shape, DType dtype, void* memory) {
    State& s = store_->states[state];
    s.shape = shape, s.dtype = dtype, s.filled = true;
    s.memory = Memory(static_cast<std::byte*>(memory), AlignedDelete{false});
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const auto& [name, s] : store_->states)
      if (s.filled) out.push_back(name);
    return out;
  }

 private:
  std::shared_ptr<Store> store_ = std::make_shared<Store>();
  std::optional<CompilerOptions> to_test_;
};

}  // namespace

namespace {

// Gaps between what is placed, by offset; behind the last one everything is free.
class Gaps {
 public:
  // The lowest place for `size` bytes.
  int64_t take(int64_t size) {
    for (auto at = gaps_.begin(); at != gaps_.end(); ++at) {
      if (at->second < size) continue;
      const int64_t offset = at->first, rest = at->second - size;
      gaps_.erase(at);
      if (rest > 0) gaps_[offset + size] = rest;
      return offset;
    }
    // No gap is large enough. One that reaches the end grows.
    int64_t offset = end_;
    if (auto last = gaps_.empty() ? gaps_.end() : std::prev(gaps_.end());
        last != gaps_.end() && last->first + last->second == end_)
      offset = last->first, gaps_.erase(last);
    end_ = offset + size;
    return offset;
  }
  void give_back(int64_t offset, int64_t size) {
    if (size == 0) return;
    auto next = gaps_.lower_bound(offset);
    if (next != gaps_.end() && offset + size == next->first) size += next->second, next = gaps_.erase(next);
    if (next != gaps_.begin())
      if (auto previous = std::prev(next); previous->first + previous->second == offset) {
        previous->second += size;
        return;
      }
    gaps_[offset] = size;
  }
  int64_t end() const { return end_; }

 private:
  std::map<int64_t, int64_t> gaps_;  // offset -> size
  int64_t end_ = 0;
};

}  // namespace

// First fit, in the order of first use: a buffer takes the lowest gap that is large enough, until its last use.
MemoryPlan plan_memory(const loop::Module& module, const std::function<bool(const ir::Buffer&)>& is_placed) {
  const ir::Program& p = module.program;
  const int end = int(module.kernels.size());
  std::vector<int> at(p.buffers.size(), -1);  // in `placements`
  MemoryPlan plan;
  for (int k = 0; k < end; ++k)
    loop::for_each_access(module.kernels[size_t(k)].body, [&](const loop::Access& a) {
      const ir::Buffer& b = p.buffers[size_t(a.buffer)];
      if (!std::holds_alternative<ir::Computed>(b.kind) || !is_placed(b)) return;
      int& placement = at[size_t(a.buffer)];
      if (placement < 0)
        placement = int(plan.placements.size()),
        plan.placements.push_back({a.buffer, 0, b.shape.elements() * bytes(b.dtype), k, k});
      plan.placements[size_t(placement)].last = k;
    });
  auto keep = [&](BufferId id) {
    if (at[size_t(id)] >= 0) plan.placements[size_t(at[size_t(id)])].last = end;
  };
  for (BufferId id : p.observed) keep(id);
  for (const auto& a : p.assignments) keep(a.value);

  auto padded = [](const Placement& place) { return (place.bytes + kAlignment - 1) / kAlignment * kAlignment; };
  Gaps gaps;
  std::multimap<int, const Placement*> living;  // by last use
  for (Placement& place : plan.placements) {    // in the order of first use
    while (!living.empty() && living.begin()->first < place.first) {
      gaps.give_back(living.begin()->second->offset, padded(*living.begin()->second));
      living.erase(living.begin());
    }
    place.offset = gaps.take(padded(place));
    living.emplace(place.last, &place);
  }
  plan.bytes = gaps.end();
  return plan;
}
MemoryPlan plan_memory(const loop::Module& module) {
  return plan_memory(module, [](const ir::Buffer&) { return true; });
}

void lend(backend::Device& device, const std::string& state, const Shape& shape, DType dtype, void* memory) {
  static_cast<CcDevice&>(device).lend(state, shape, dtype, memory);
}

std::unique_ptr<backend::Device> make_device(const DeviceOptions& options) {
  return std::make_unique<CcDevice>(options, options.compiler);
}
std::unique_ptr<backend::Device> make_untested_device(const DeviceOptions& options) {
  return std::make_unique<CcDevice>(options, std::nullopt);
}

}  // namespace caravan::cc
