#include "caravan/backend/exchange.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "caravan/base/error.h"
#include "caravan/plan/cost.h"

namespace caravan::backend {

using loop::LibraryCall;

namespace {

double now() {  // seconds
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Exchange::Exchange(std::shared_ptr<Communicator> communicator, const Mesh& mesh)
    : communicator_(std::move(communicator)), mesh_(mesh) {
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
    groups_.push_back(mesh.along(int(axis), communicator_->rank()));
}

Exchange::~Exchange() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Exchange::execute(const Job& job) {
  const LibraryCall& call = *job.call;
  const auto& [exchange, values] = std::get<LibraryCall::Collective>(call.function);
  const std::vector<int>& group = groups_.at(size_t(exchange.mesh_axis));
  const double start = now();
  if (job.around.before) job.around.before();
  using Kind = ir::Collective::Kind;
  reduced_.clear(), gathered_.clear();
  for (size_t k = 0; k < call.reads.size(); ++k) {
    const ir::Buffer& b = job.module->buffers[size_t(call.reads[k])];
    const void* from = job.buffers[call.reads[k]];
    void* to = job.buffers[call.writes[k]];
    const int64_t elements = b.shape.elements(), size = elements * bytes(b.dtype), stripes = values[k].stripes;
    if (exchange.kind == Kind::all_gather)
      gathered_.push_back({from, to, stripes, size / stripes});
    else
      reduced_.push_back({from, to, elements, b.dtype, values[k].accumulator, stripes});
  }
  // Maxima of a number and of its complement are the own ones on all devices alone if all have the same number.
  const std::array<int32_t, 2> own{job.indices.value_or(0), ~job.indices.value_or(0)};
  std::array<int32_t, 2> largest = own;
  if (job.indices) reduced_.push_back({own.data(), largest.data(), int64_t(own.size()), DType::i32, Accumulator::max});
  switch (exchange.kind) {
    case Kind::all_reduce: communicator_->all_reduce(group, reduced_); break;
    case Kind::all_gather: communicator_->all_gather(group, gathered_); break;
    case Kind::reduce_scatter: communicator_->reduce_scatter(group, reduced_); break;
  }
  if (largest != own)
    throw Disagreement(
        "processes were given other values of an index for the same step; all of them must call `run` "
        "with the same ones.");
  if (job.around.after) job.around.after();
  const std::lock_guard lock(mutex_);
  exchanged_.seconds += now() - start;
  exchanged_.bytes += int64_t(plan::exchange_cost(*job.module, call, int64_t(group.size())).sent);
}

void Exchange::begin_step(std::span<const int64_t> indices) {
  uint64_t hash = 0;
  for (const int64_t value : indices)
    hash = (hash ^ uint64_t(value)) * 0x9e37'79b9'7f4a'7c15 + 1;  // multiplicative hashing
  indices_ = int32_t(hash >> 32);
  not_compared_.assign(groups_.size(), true);
}
std::optional<int32_t> Exchange::indices_to_compare(const LibraryCall::Collective& call) {
  if (call.exchange.kind != ir::Collective::Kind::all_reduce || not_compared_.empty()) return {};
  if (!std::exchange(not_compared_[size_t(call.exchange.mesh_axis)], false)) return {};
  return indices_;
}

void Exchange::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    const Job job = jobs_.front();
    jobs_.pop_front();
    const bool runs = !failed_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      if (runs) execute(job);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure && !failed_) failed_ = failure;
    done_ = job.ticket;
    changed_.notify_all();
  }
}

void Exchange::wait_for(uint64_t ticket) {
  const double start = now();
  communicator_->set_urgent(true);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= ticket; });
  communicator_->set_urgent(false);
  exchanged_.waited += now() - start;
  if (failed_) std::rethrow_exception(failed_);
}

void Exchange::run(const loop::Module& module, size_t kernel, void* const* buffers, const AroundExchange& around) {
  const LibraryCall& call = *loop::library_call(module.kernels[kernel]);
  if (auto* wait = std::get_if<LibraryCall::Wait>(&call.function)) {
    const auto at =
        std::find_if(open_.begin(), open_.end(), [&](const auto& begun) { return begun.first == wait->kernel; });
    if (at == open_.end()) return;  // it was not given to the other thread
    const uint64_t ticket = at->second;
    open_.erase(at);
    wait_for(ticket);
    return;
  }
  Job job{&call, &module, buffers, 0, around, indices_to_compare(std::get<LibraryCall::Collective>(call.function))};
  const LibraryCall* next =
      kernel + 1 < module.kernels.size() ? loop::library_call(module.kernels[kernel + 1]) : nullptr;
  auto* waits = next ? std::get_if<LibraryCall::Wait>(&next->function) : nullptr;
  if (waits && waits->kernel == kernel) {
    wait_for(begun_);  // collectives keep their order on all devices
    const double start = now();
    communicator_->set_urgent(true);
    execute(job);
    communicator_->set_urgent(false);
    const std::lock_guard lock(mutex_);
    exchanged_.waited += now() - start;
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  job.ticket = ++begun_;
  open_.emplace_back(kernel, job.ticket);
  jobs_.push_back(job);
  changed_.notify_all();
}

Exchanged Exchange::take_exchanged() {
  const std::lock_guard lock(mutex_);
  return std::exchange(exchanged_, {});
}

}  // namespace caravan::backend
