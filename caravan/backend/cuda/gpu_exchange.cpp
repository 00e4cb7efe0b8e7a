#include "caravan/backend/cuda/gpu_exchange.h"

namespace caravan::cuda {

using loop::LibraryCall;

namespace {

int64_t exchanged_bytes(const loop::Module& module, ir::BufferId id) {
  const ir::Buffer& b = module.buffers[size_t(id)];
  return b.shape.elements() * bytes(b.dtype);
}

}  // namespace

bool GpuExchange::runs(const LibraryCall& call) {
  return std::holds_alternative<LibraryCall::Collective>(call.function) ||
         std::holds_alternative<LibraryCall::Wait>(call.function);
}

GpuExchange::GpuExchange(std::shared_ptr<Gpu> gpu, std::shared_ptr<backend::Exchange> exchange,
                         const loop::Module& module)
    : gpu_(std::move(gpu)),
      exchange_(std::move(exchange)),
      module_(module),
      on_gpu_(exchange_->communicator().on_gpu()),
      at_(module.buffers.size(), nullptr) {
  constexpr unsigned kNonBlocking = 1, kWithoutTime = 2;
  gpu_->use();
  check(gpu_->driver().stream_create(&stream_, kNonBlocking), "the GPU gives no stream");
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    const LibraryCall* call = loop::library_call(module.kernels[k]);
    if (!call || !std::holds_alternative<LibraryCall::Collective>(call->function)) continue;
    Events& events = events_[k];
    check(gpu_->driver().event_create(&events.computed, kWithoutTime), "the GPU gives no event");
    check(gpu_->driver().event_create(&events.arrived, kWithoutTime), "the GPU gives no event");
    for (const auto* which : {&call->reads, &call->writes})
      for (const ir::BufferId id : *which)
        if (!on_gpu_ && !at_[size_t(id)]) {
          memory_.emplace_back(*gpu_, std::max<int64_t>(exchanged_bytes(module, id), 1));
          at_[size_t(id)] = memory_.back().get();
        }
  }
}
GpuExchange::~GpuExchange() {
  for (const auto& [kernel, events] : events_) {
    gpu_->driver().event_destroy(events.computed);
    gpu_->driver().event_destroy(events.arrived);
  }
  if (stream_) gpu_->driver().stream_destroy(stream_);
}

void GpuExchange::copy(const std::vector<ir::BufferId>& which, bool to_host) const {
  for (const ir::BufferId id : which) {
    const Address here = (*on_device_)[size_t(id)];
    const size_t size = size_t(exchanged_bytes(module_, id));
    if (size == 0) continue;
    check(to_host ? gpu_->driver().copy_to_host(at_[size_t(id)], here, size, stream_)
                  : gpu_->driver().copy_to_device(here, at_[size_t(id)], size, stream_),
          "values that devices exchange cannot be copied");
  }
}

void GpuExchange::run(size_t kernel, const std::vector<Address>& buffers) {
  const LibraryCall& call = *loop::library_call(module_.kernels[kernel]);
  on_device_ = &buffers;
  const Driver& driver = gpu_->driver();
  if (auto* wait = std::get_if<LibraryCall::Wait>(&call.function)) {
    exchange_->run(module_, kernel, at_.data());
    check(driver.stream_after(gpu_->stream(), events_.at(wait->kernel).arrived, 0), "the GPU does not wait for values");
    return;
  }
  const Events& events = events_.at(kernel);
  check(driver.event_record(events.computed, gpu_->stream()), "the GPU does not mark the end of kernels");
  if (on_gpu_)
    for (const auto* which : {&call.reads, &call.writes})
      for (const ir::BufferId id : *which) at_[size_t(id)] = reinterpret_cast<void*>(buffers[size_t(id)]);
  const auto before = [this, &call, events] {
    gpu_->use();
    check(gpu_->driver().stream_after(stream_, events.computed, 0), "the GPU does not wait for kernels");
    if (!on_gpu_) copy(call.reads, true);
    check(gpu_->driver().stream_wait(stream_), "the GPU reports an error in a kernel");
  };
  const auto after = [this, &call, events] {
    if (!on_gpu_) copy(call.writes, false);
    check(gpu_->driver().event_record(events.arrived, stream_), "the GPU does not mark the end of copies");
  };
  exchange_->run(module_, kernel, at_.data(), {before, after});
}

}  // namespace caravan::cuda
