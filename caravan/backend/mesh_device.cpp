#include "caravan/backend/mesh_device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <thread>

#include "caravan/backend/kernel_cache.h"
#include "caravan/base/error.h"
#include "caravan/ir/identity.h"
#include "caravan/mesh/shard.h"

namespace caravan::backend {

using mesh::Places;

namespace {

// One array of each device along an axis, put together along axis `x`.
Array joined_along(const std::vector<Array>& parts, size_t x) {
  const Shape& shape = parts[0].shape();
  const std::vector<int64_t> sizes = shape.sizes();
  Array out(mesh::with_size(shape, x, sizes[x] * int64_t(parts.size())), parts[0].dtype());
  int64_t stripes = 1;
  for (size_t k = 0; k < x; ++k) stripes *= sizes[k];
  const size_t size = out.size() == 0 ? 0 : size_t(parts[0].size() / stripes * bytes(out.dtype()));
  char* to = static_cast<char*>(out.mutable_data());
  for (int64_t stripe = 0; size > 0 && stripe < stripes; ++stripe)
    for (const Array& part : parts)
      std::memcpy(to, static_cast<const char*>(part.data()) + size_t(stripe) * size, size), to += size;
  return out;
}
// Part `which` of `parts` equal ones along axis `x`.
Array cut_along(const Array& whole, size_t x, int64_t parts, int64_t which) {
  const std::vector<int64_t> sizes = whole.shape().sizes();
  Array out(mesh::with_size(whole.shape(), x, sizes[x] / parts), whole.dtype());
  int64_t stripes = 1;
  for (size_t k = 0; k < x; ++k) stripes *= sizes[k];
  const size_t size = out.size() == 0 ? 0 : size_t(out.size() / stripes * bytes(out.dtype()));
  char* to = static_cast<char*>(out.mutable_data());
  for (int64_t stripe = 0; size > 0 && stripe < stripes; ++stripe, to += size)
    std::memcpy(to, static_cast<const char*>(whole.data()) + size_t(stripe * parts + which) * size, size);
  return out;
}

// Threads that do the same thing at the same time, one for each worker; the caller is the first of them.
class Team {
 public:
  explicit Team(size_t workers) {
    for (size_t k = 1; k < workers; ++k) threads_.emplace_back([this, k] { work(k); });
  }
  ~Team() {
    stop_.store(true);
    ++round_, round_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  // `what` must not throw.
  void run(const std::function<void(size_t worker)>& what) {
    what_ = &what;
    left_.store(int(threads_.size()));
    ++round_, round_.notify_all();
    what(0);
    for (int left; (left = left_.load()) > 0;) left_.wait(left);
  }

 private:
  void work(size_t k) {
    for (uint32_t seen = 0;; ++seen) {
      round_.wait(seen);
      if (stop_.load()) return;
      (*what_)(k);
      if (--left_ == 0) left_.notify_all();
    }
  }

  std::atomic<uint32_t> round_{0};
  std::atomic<int> left_{0};
  std::atomic<bool> stop_{false};
  const std::function<void(size_t)>* what_ = nullptr;
  std::vector<std::thread> threads_;
};

struct MeshShared {
  std::vector<Worker> workers;
  Mesh mesh;
  std::unique_ptr<Team> team;
  std::map<std::string, Array> collected;  // by state: Device::collect_states

  bool has_processes() const { return int64_t(workers.size()) < mesh.devices(); }  // one for each device

  // Runs it on all workers. If one fails, the others stop too, and its failure is thrown.
  void on_all(const std::function<void(size_t)>& what) {
    std::vector<std::exception_ptr> failures(workers.size());
    std::atomic<int> first{-1};
    team->run([&](size_t k) {
      try {
        what(k);
      } catch (const Disagreement&) {  // the others throw it, too
        failures[k] = std::current_exception();
        first.store(int(k));
      } catch (const std::exception& error) {
        failures[k] = std::current_exception();
        int none = -1;
        first.compare_exchange_strong(none, int(k));
        workers[k].exchange->communicator().stop(error.what());
      }
    });
    if (first >= 0) std::rethrow_exception(failures[size_t(first.load())]);
  }
  int rank(size_t worker) const { return workers[worker].exchange->communicator().rank(); }
};

class MeshExecutable : public Executable {
 public:
  MeshExecutable(std::shared_ptr<MeshShared> shared, std::vector<std::unique_ptr<Executable>> executables, bool assigns)
      : shared_(std::move(shared)),
        executables_(std::move(executables)),
        symbols_(executables_.size()),
        assigns_(assigns) {}

  void run(const std::vector<int64_t>& symbols) override {
    begin(symbols);
    shared_->on_all([&](size_t k) {
      begin_step(k);
      executables_[k]->run(symbols_[k]);
    });
  }
  void run_steps(int64_t steps, std::vector<int64_t>& symbols, const std::vector<int64_t>& ranges) override {
    begin(symbols);
    shared_->on_all([&](size_t k) {
      for (int64_t s = 0; s < steps; ++s) {
        begin_step(k);
        executables_[k]->run(symbols_[k]);
        advance(symbols_[k], ranges);
      }
    });
    std::copy_n(symbols_[0].begin(), symbols.size(), symbols.begin());
  }
  std::optional<std::vector<double>> run_timed(int64_t steps, std::vector<int64_t>& symbols,
                                               const std::vector<int64_t>& ranges) override {
    begin(symbols);
    std::optional<std::vector<double>> out;
    shared_->on_all([&](size_t k) {
      for (int64_t s = 0; s < steps; ++s) {
        begin_step(k);
        std::vector<int64_t> now = symbols_[k];
        std::optional<std::vector<double>> spent =
            executables_[k]->run_timed(1, now, std::vector<int64_t>(now.size(), 0));
        advance(symbols_[k], ranges);
        if (k != 0 || !spent) continue;
        if (!out)
          out = std::move(spent);
        else
          for (size_t i = 0; i < out->size(); ++i) (*out)[i] += (*spent)[i];
      }
    });
    std::copy_n(symbols_[0].begin(), symbols.size(), symbols.begin());
    return out;
  }
  Array observed(size_t which) const override { return executables_[0]->observed(which); }
  const void* observed_memory(size_t which) const override { return executables_[0]->observed_memory(which); }
  Report report() const override { return executables_[0]->report(); }
  void finish_compiling() override {
    for (const auto& executable : executables_) executable->finish_compiling();
  }

 private:
  void begin(const std::vector<int64_t>& symbols) {
    if (assigns_) shared_->collected.clear();
    for (size_t k = 0; k < symbols_.size(); ++k) with_rank(k, symbols);
  }
  // The symbols of the program, followed by where the device is in the mesh.
  void with_rank(size_t worker, const std::vector<int64_t>& symbols) {
    symbols_[worker] = symbols;
    for (size_t axis = 0; axis < shared_->mesh.axes.size(); ++axis)
      symbols_[worker].push_back(shared_->mesh.coordinate(int(axis), shared_->rank(worker)));
  }
  // Workers of one process have the same symbols; processes may have been given others.
  void begin_step(size_t worker) {
    if (!shared_->has_processes() || shared_->workers[worker].exchange->communicator().on_gpu()) return;
    const std::span<const int64_t> all = symbols_[worker];
    shared_->workers[worker].exchange->begin_step(all.first(all.size() - shared_->mesh.axes.size()));
  }
  static void advance(std::vector<int64_t>& symbols, const std::vector<int64_t>& ranges) {
    for (size_t k = 0; k < ranges.size(); ++k)
      if (++symbols[k] == ranges[k]) symbols[k] = 0;
  }

  std::shared_ptr<MeshShared> shared_;
  std::vector<std::unique_ptr<Executable>> executables_;
  std::vector<std::vector<int64_t>> symbols_;  // by worker
  bool assigns_;                               // states
};

// What devices must agree about before they run a plan: the program, and the order of what they exchange, which may
// depend on the version of the compiler.
std::string text_of(const plan::Plan& plan) {
  std::string out = ir::identity(plan.program);
  for (const loop::Kernel& kernel : plan.scheduled.kernels)
    if (const loop::LibraryCall* call = loop::library_call(kernel))
      if (auto* collective = std::get_if<loop::LibraryCall::Collective>(&call->function)) {
        out += std::string(ir::name(collective->exchange.kind)) + std::to_string(collective->exchange.mesh_axis);
        for (const ir::BufferId id : call->reads) out += " " + plan.scheduled.buffers[size_t(id)].name;
      }
  return out;
}
// A program that is the same for the compiler may read other numbers, such as another learning rate, and other data.
void agree_about_data(Communicator& all, const ir::Program& program) {
  for (const ir::Buffer& b : program.buffers)
    if (auto* leaf = std::get_if<ir::DataLeaf>(&b.kind))
      all.agree((b.shape.rank() == 0 ? "another number `" : "other data `") + b.name + "`",
                digest({static_cast<const char*>(leaf->array.data()), size_t(leaf->array.size() * bytes(b.dtype))}));
}

class MeshDevice : public Device {
 public:
  explicit MeshDevice(std::vector<Worker> workers) {
    shared_->mesh = workers.at(0).exchange->mesh();
    CARAVAN_CHECK(workers.size() == 1 || int64_t(workers.size()) == shared_->mesh.devices(),
                  "some workers are missing");
    shared_->workers = std::move(workers);
    shared_->team = std::make_unique<Team>(shared_->workers.size());
  }

  std::string name() const override { return first().name(); }
  std::optional<Target> target() const override { return first().target(); }
  std::optional<Peaks> peaks() override { return shared_->workers[0].device->peaks(); }
  Exchanged take_exchanged() override {
    Exchanged out;
    for (const Worker& worker : shared_->workers) {
      const Exchanged one = worker.exchange->take_exchanged();
      out.seconds += one.seconds, out.waited += one.waited, out.bytes += one.bytes;
    }
    const size_t workers = shared_->workers.size();
    return {out.seconds / double(workers), out.waited / double(workers), out.bytes / int64_t(workers)};
  }

  std::unique_ptr<Executable> prepare(std::shared_ptr<const plan::Plan> plan) override {
    const auto& all = plan->program.accumulations;
    if (shared_->has_processes() &&
        std::any_of(all.begin(), all.end(), [](const ir::Accumulation& a) { return a.collective.has_value(); })) {
      Communicator& communicator = shared_->workers[0].exchange->communicator();
      communicator.agree("another program", text_of(*plan));
      agree_about_data(communicator, plan->program);
    }
    for (const auto& [state, places] : mesh::state_places(plan->program, shared_->mesh)) {
      if (const auto at = places_.find(state); at != places_.end() && at->second == places) continue;
      if (has(state)) {
        const Array value = read(state);
        places_[state] = places;
        write(state, value, value.dtype());
      }
      places_[state] = places;
    }
    std::vector<std::unique_ptr<Executable>> executables;
    for (const Worker& worker : shared_->workers) executables.push_back(worker.device->prepare(plan));
    return std::make_unique<MeshExecutable>(shared_, std::move(executables), !plan->program.assignments.empty());
  }

  bool has(const std::string& state) const override { return first().has(state); }
  Array read(const std::string& state) const override {
    const auto at = places_.find(state);
    if (at == places_.end() || is_whole(at->second)) return first().read(state);
    if (const auto found = shared_->collected.find(state); found != shared_->collected.end()) return found->second;
    return shared_->has_processes() ? read_from_processes(state, at->second) : read_part(state, at->second, {}, 0);
  }
  void collect_states() override {
    if (!shared_->has_processes()) return;
    for (const auto& [state, places] : places_)
      if (!is_whole(places) && has(state) && !shared_->collected.count(state))
        shared_->collected.emplace(state, read_from_processes(state, places));
  }
  void write(const std::string& state, const Array& value, DType dtype) override {
    const auto at = places_.find(state);
    shared_->collected.erase(state);
    for (size_t w = 0; w < shared_->workers.size(); ++w) {
      Array part = value;
      for (size_t x = 0; at != places_.end() && x < at->second.size(); ++x)
        if (const int axis = at->second[x]; axis >= 0)
          part = cut_along(part, x, shared_->mesh.axes[size_t(axis)].size,
                           shared_->mesh.coordinate(axis, shared_->rank(w)));
      shared_->workers[w].device->write(state, part, dtype);
    }
  }
  std::vector<std::string> names() const override { return first().names(); }
  const void* memory(const std::string& state) const override {
    const auto at = places_.find(state);
    return at == places_.end() || is_whole(at->second) ? first().memory(state) : nullptr;
  }

 private:
  Device& first() const { return *shared_->workers[0].device; }
  static bool is_whole(const Places& places) {
    return std::all_of(places.begin(), places.end(), [](int axis) { return axis < 0; });
  }

  // What the devices with these positions (by axis of the mesh; 0 for the others) have, put together from axis x on.
  Array read_part(const std::string& state, const Places& places, std::map<int, int64_t> positions, size_t x) const {
    while (x < places.size() && places[x] < 0) ++x;
    if (x == places.size()) {
      for (size_t w = 0;; ++w) {
        bool here = true;
        for (size_t axis = 0; axis < shared_->mesh.axes.size(); ++axis)
          here = here && shared_->mesh.coordinate(int(axis), int(w)) == positions[int(axis)];
        if (here) return shared_->workers[w].device->read(state);
      }
    }
    std::vector<Array> parts;
    for (int64_t k = 0; k < shared_->mesh.axes[size_t(places[x])].size; ++k) {
      positions[places[x]] = k;
      parts.push_back(read_part(state, places, positions, x + 1));
    }
    return joined_along(parts, x);
  }
  Array read_from_processes(const std::string& state, const Places& places) const {
    Array value = first().read(state);
    Exchange& exchange = *shared_->workers[0].exchange;
    for (size_t x = 0; x < places.size(); ++x) {
      if (places[x] < 0) continue;
      const std::vector<int> group = shared_->mesh.along(places[x], exchange.communicator().rank());
      const std::vector<int64_t> sizes = value.shape().sizes();
      Array whole(mesh::with_size(value.shape(), x, sizes[x] * int64_t(group.size())), value.dtype());
      int64_t stripes = 1;
      for (size_t k = 0; k < x; ++k) stripes *= sizes[k];
      const Gathered part{value.data(), whole.mutable_data(), stripes, value.size() / stripes * bytes(value.dtype())};
      exchange.communicator().all_gather(group, {&part, 1});
      value = std::move(whole);
    }
    return value;
  }

  std::shared_ptr<MeshShared> shared_ = std::make_shared<MeshShared>();
  mesh::StatePlaces places_;  // of states that programs use
};

}  // namespace

std::unique_ptr<Device> make_mesh_device(std::vector<Worker> workers) {
  return std::make_unique<MeshDevice>(std::move(workers));
}

}  // namespace caravan::backend
