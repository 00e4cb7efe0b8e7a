#include "caravan/backend/nccl/nccl.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "caravan/backend/cuda/compile.h"
#include "caravan/backend/cuda/gpu.h"
#include "caravan/backend/nccl/combine.h"
#include "caravan/backend/nccl/library.h"
#include "caravan/base/error.h"
#include "caravan/target/exchange.h"
#include "caravan/target/target.h"

namespace caravan::nccl {

namespace {

using cuda::Address;

// Of all ranks of this process.
struct Shared {
  std::mutex mutex;
  std::vector<CommHandle*> comms;
  bool stopped = false;
  std::string why;

  void stop(const std::string& reason) {
    const std::lock_guard lock(mutex);
    if (stopped) return;
    stopped = true, why = reason;
    for (CommHandle* comm : comms) library().comm_abort(comm);  // what waits for messages returns
  }
  void check_running() {
    const std::lock_guard lock(mutex);
    if (stopped) throw BackendError(why);
  }
};

class Rank : public backend::Communicator {
 public:
  Rank(std::shared_ptr<Shared> shared, std::shared_ptr<cuda::Gpu> gpu, int rank, int devices, std::string cache,
       std::shared_ptr<backend::Communicator> processes)
      : shared_(std::move(shared)),
        gpu_(std::move(gpu)),
        rank_(rank),
        devices_(devices),
        cache_(std::move(cache)),
        processes_(std::move(processes)) {}
  ~Rank() override {
    for (const auto& [key, code] : combines_) gpu_->driver().module_unload(code.first);
    const std::lock_guard lock(shared_->mutex);
    if (comm && !shared_->stopped) library().comm_destroy(comm);
    std::erase(shared_->comms, comm);
  }

  int rank() const override { return rank_; }
  int devices() const override { return devices_; }
  bool on_gpu() const override { return true; }

  void all_reduce(const std::vector<int>& group, std::span<const backend::Reduced> parts) override {
    begin();
    const int64_t all = int64_t(group.size()), own = position(group);
    auto first = [&](const backend::Reduced& p, int64_t r) { return p.elements * r / all; };
    std::vector<int64_t> offsets;  // of the rows of each part
    int64_t needed = 0;
    for (const backend::Reduced& p : parts) {
      offsets.push_back(needed);
      needed += aligned((first(p, own + 1) - first(p, own)) * all * bytes(p.dtype));
    }
    reserve(needed);
    exchange([&](auto&& send, auto&& receive) {
      for (size_t k = 0; k < parts.size(); ++k) {
        const backend::Reduced& p = parts[k];
        const int64_t width = bytes(p.dtype), row = (first(p, own + 1) - first(p, own)) * width;
        for (int64_t r = 0; r < all; ++r) {
          send(address(p.from) + Address(first(p, r) * width), (first(p, r + 1) - first(p, r)) * width,
               group[size_t(r)]);
          receive(rows_.address() + Address(offsets[k] + r * row), row, group[size_t(r)]);
        }
      }
    });
    for (size_t k = 0; k < parts.size(); ++k) {
      const backend::Reduced& p = parts[k];
      combine(p, rows_.address() + Address(offsets[k]), address(p.to) + Address(first(p, own) * bytes(p.dtype)),
              first(p, own + 1) - first(p, own), all);
    }
    exchange([&](auto&& send, auto&& receive) {
      for (const backend::Reduced& p : parts)
        for (int64_t r = 0; r < all; ++r) {
          if (r == own) continue;
          const int64_t width = bytes(p.dtype);
          send(address(p.to) + Address(first(p, own) * width), (first(p, own + 1) - first(p, own)) * width,
               group[size_t(r)]);
          receive(address(p.to) + Address(first(p, r) * width), (first(p, r + 1) - first(p, r)) * width,
                  group[size_t(r)]);
        }
    });
    gpu_->wait();
    shared_->check_running();
  }

  void all_gather(const std::vector<int>& group, std::span<const backend::Gathered> parts) override {
    begin();
    exchange([&](auto&& send, auto&& receive) {
      for (const backend::Gathered& p : parts)
        for (int64_t stripe = 0; stripe < p.stripes; ++stripe)
          for (size_t r = 0; r < group.size(); ++r) {
            send(address(p.from) + Address(stripe * p.bytes), p.bytes, group[r]);
            receive(address(p.to) + Address((stripe * int64_t(group.size()) + int64_t(r)) * p.bytes), p.bytes,
                    group[r]);
          }
    });
    gpu_->wait();
    shared_->check_running();
  }

  void reduce_scatter(const std::vector<int>& group, std::span<const backend::Reduced> parts) override {
    begin();
    const int64_t all = int64_t(group.size());
    std::vector<int64_t> offsets;  // of the rows of each part
    int64_t needed = 0;
    for (const backend::Reduced& p : parts) offsets.push_back(needed), needed += aligned(p.elements * bytes(p.dtype));
    reserve(needed);
    exchange([&](auto&& send, auto&& receive) {
      for (size_t k = 0; k < parts.size(); ++k) {
        const backend::Reduced& p = parts[k];
        const int64_t row = p.elements * bytes(p.dtype) / all, stripe = row / p.stripes;
        for (int64_t i = 0; i < p.stripes; ++i)
          for (int64_t r = 0; r < all; ++r) {
            send(address(p.from) + Address((i * all + r) * stripe), stripe, group[size_t(r)]);
            receive(rows_.address() + Address(offsets[k] + r * row + i * stripe), stripe, group[size_t(r)]);
          }
      }
    });
    for (size_t k = 0; k < parts.size(); ++k)
      combine(parts[k], rows_.address() + Address(offsets[k]), address(parts[k].to), parts[k].elements / all, all);
    gpu_->wait();
    shared_->check_running();
  }

  void agree(const std::string& what, const std::string& text) override {
    if (processes_) processes_->agree(what, text);  // the GPUs of one process have the same plan
  }
  void stop(const std::string& why) override {
    shared_->stop(why);
    if (processes_) processes_->stop(why);
  }

  CommHandle* comm = nullptr;

 private:
  static Address address(const void* memory) { return reinterpret_cast<Address>(memory); }
  static int64_t aligned(int64_t bytes) { return (bytes + kGpuAlignment - 1) / kGpuAlignment * kGpuAlignment; }
  int64_t position(const std::vector<int>& group) const {
    return std::find(group.begin(), group.end(), rank_) - group.begin();
  }
  void begin() {
    shared_->check_running();
    gpu_->use();
  }
  void reserve(int64_t needed) {
    if (needed <= reserved_) return;
    rows_ = cuda::Memory(gpu_, needed);
    reserved_ = needed;
  }

  // Messages of one exchange are under way at the same time; what is put into the stream after it finds their values.
  template <class Messages>
  void exchange(const Messages& messages) {
    const Library& nccl = library();
    const char* kFailed = "GPUs cannot exchange values";
    check(nccl.group_start(), kFailed);
    messages(
        [&](Address from, int64_t count, int to) {
          if (count > 0)
            check(nccl.send(reinterpret_cast<void*>(from), size_t(count), kBytes, to, comm, gpu_->stream()), kFailed);
        },
        [&](Address to, int64_t count, int from) {
          if (count > 0)
            check(nccl.receive(reinterpret_cast<void*>(to), size_t(count), kBytes, from, comm, gpu_->stream()),
                  kFailed);
        });
    check(nccl.group_end(), kFailed);
  }

  // out = the combination of all rows, of `count` elements each.
  void combine(const backend::Reduced& part, Address rows, Address out, int64_t count, int64_t all) {
    if (count == 0) return;
    void* arguments[] = {&rows, &out, &count, &all};
    const unsigned blocks =
        unsigned(std::min<int64_t>(kMostCombineBlocks, (count + kCombineThreads - 1) / kCombineThreads));
    const cuda::LaunchConfig config{blocks, 1, 1, kCombineThreads, 1, 1, 0, gpu_->stream(), nullptr, 0};
    cuda::check(gpu_->driver().launch(&config, kernel(part.dtype, part.accumulator), arguments, nullptr),
                "the GPU does not combine values");
  }
  cuda::FunctionHandle* kernel(DType dtype, Accumulator accumulator) {
    auto& [code, function] = combines_[{dtype, accumulator}];
    if (!function) {
      const cuda::Compiled compiled =
          cuda::compile({combine_text(dtype, accumulator)}, gpu_->target().gpu.compute, {.cache = cache_});
      gpu_->use();
      cuda::check(gpu_->driver().module_load(&code, compiled.codes[0].data()), "the GPU does not load a kernel");
      cuda::check(gpu_->driver().module_function(&function, code, kCombine), "the GPU does not find a kernel");
    }
    return function;
  }

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<cuda::Gpu> gpu_;  // with a stream of its own
  int rank_, devices_;
  std::string cache_;
  std::shared_ptr<backend::Communicator> processes_;
  cuda::Memory rows_;  // what others have sent
  int64_t reserved_ = 0;
  std::map<std::pair<DType, Accumulator>, std::pair<cuda::ModuleHandle*, cuda::FunctionHandle*>> combines_;
};

}  // namespace

std::vector<std::shared_ptr<backend::Communicator>> make_communicators(const std::vector<int>& ordinals,
                                                                       const std::string& cache) {
  const Library& nccl = library();
  const int devices = int(ordinals.size());
  UniqueId id;
  check(nccl.unique_id(&id), "NCCL does not start");
  auto shared = std::make_shared<Shared>();
  std::vector<std::shared_ptr<Rank>> ranks;
  for (int rank = 0; rank < devices; ++rank)
    ranks.push_back(std::make_shared<Rank>(shared, std::make_shared<cuda::Gpu>(ordinals[size_t(rank)]), rank, devices,
                                           cache, nullptr));
  check(nccl.group_start(), "NCCL does not start");
  for (int rank = 0; rank < devices; ++rank) {
    cuda::Gpu(ordinals[size_t(rank)]).use();
    check(nccl.comm_init(&ranks[size_t(rank)]->comm, devices, id, rank), "NCCL does not find the GPUs of the mesh");
  }
  check(nccl.group_end(), "NCCL does not find the GPUs of the mesh");
  for (const auto& rank : ranks) shared->comms.push_back(rank->comm);
  return {ranks.begin(), ranks.end()};
}

std::shared_ptr<backend::Communicator> make_communicator(std::shared_ptr<backend::Communicator> processes, int ordinal,
                                                         const std::string& cache) {
  const Library& nccl = library();
  const int rank = processes->rank(), devices = processes->devices();
  UniqueId id;
  if (rank == 0) check(nccl.unique_id(&id), "NCCL does not start");
  std::vector<UniqueId> all(size_t(devices), UniqueId{});
  std::vector<int> group;
  for (int r = 0; r < devices; ++r) group.push_back(r);
  const backend::Gathered part{&id, all.data(), 1, int64_t(sizeof id)};
  processes->all_gather(group, {&part, 1});
  auto shared = std::make_shared<Shared>();
  auto gpu = std::make_shared<cuda::Gpu>(ordinal);
  auto out = std::make_shared<Rank>(shared, gpu, rank, devices, cache, std::move(processes));
  gpu->use();
  check(nccl.comm_init(&out->comm, devices, all[0], rank), "NCCL does not find the GPUs of the mesh");
  shared->comms.push_back(out->comm);
  return out;
}

std::string note() {
  try {
    return "NCCL " + version_text(library().number);
  } catch (const BackendError& error) {
    return reason_of(error);
  }
}

}  // namespace caravan::nccl
