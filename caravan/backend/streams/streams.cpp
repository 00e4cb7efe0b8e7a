#include "caravan/backend/streams/streams.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "caravan/base/error.h"
#include "caravan/base/processors.h"
#include "caravan/target/waits.h"

namespace caravan::streams {

namespace {

// Where the devices of a group meet. A phase ends when the last of them arrives; phases are numbered.
struct Meeting {
  explicit Meeting(size_t devices) : reduced(devices), gathered(devices), devices(uint32_t(devices)) {}
  std::vector<std::span<const backend::Reduced>> reduced;    // by position in the group
  std::vector<std::span<const backend::Gathered>> gathered;  // likewise
  const uint32_t devices;
  std::atomic<uint32_t> arrived{0}, phase{0};
};

// What all devices share.
struct Shared {
  std::mutex mutex;
  std::map<std::vector<int>, std::unique_ptr<Meeting>> meetings;  // by group
  std::atomic<bool> stopped{false};
  std::string why;  // guarded by the mutex
  bool spins = false;

  Meeting& meeting(const std::vector<int>& group) {
    const std::lock_guard lock(mutex);
    auto& out = meetings[group];
    if (!out) out = std::make_unique<Meeting>(group.size());
    return *out;
  }
  void stop(const std::string& reason) {
    const std::lock_guard lock(mutex);
    if (!stopped.load()) why = reason;
    stopped.store(true);
    for (auto& [group, m] : meetings) ++m->phase, m->phase.notify_all();
  }
  void check() {
    if (!stopped.load(std::memory_order_relaxed)) return;
    const std::lock_guard lock(mutex);
    throw BackendError(why);
  }

  // Returns when all devices of the group are here.
  void arrive(Meeting& m) {
    check();
    const uint32_t phase = m.phase.load();
    if (++m.arrived == m.devices) {
      m.arrived.store(0);
      ++m.phase;
      m.phase.notify_all();
    } else {
      for (int k = 0; spins && k < kMeetingSpins && m.phase.load(std::memory_order_acquire) == phase; ++k)
        std::atomic_signal_fence(std::memory_order_seq_cst);
      while (m.phase.load() == phase && !stopped.load()) m.phase.wait(phase);
    }
    check();
  }
};

class Stream : public backend::Communicator {
 public:
  Stream(std::shared_ptr<Shared> shared, int rank, int devices)
      : shared_(std::move(shared)), rank_(rank), devices_(devices) {}

  int rank() const override { return rank_; }
  int devices() const override { return devices_; }

  void all_reduce(const std::vector<int>& group, std::span<const backend::Reduced> parts) override {
    Meeting& m = shared_->meeting(group);
    const size_t own = position(group), all = group.size();
    m.reduced[own] = parts;
    shared_->arrive(m);
    std::vector<const void*> rows(all);
    for (size_t k = 0; k < parts.size(); ++k) {
      const backend::Reduced& part = parts[k];
      const int64_t first = part.elements * int64_t(own) / int64_t(all),
                    last = part.elements * int64_t(own + 1) / int64_t(all), width = bytes(part.dtype);
      for (size_t r = 0; r < all; ++r) rows[r] = m.reduced[r][k].from;
      backend::combine(rows, part.to, first, last, part.dtype, part.accumulator);
      for (size_t r = 0; r < all; ++r)
        if (r != own && last > first)
          std::memcpy(static_cast<char*>(m.reduced[r][k].to) + first * width,
                      static_cast<char*>(part.to) + first * width, size_t((last - first) * width));
    }
    shared_->arrive(m);
  }

  void all_gather(const std::vector<int>& group, std::span<const backend::Gathered> parts) override {
    Meeting& m = shared_->meeting(group);
    m.gathered[position(group)] = parts;
    shared_->arrive(m);
    for (size_t k = 0; k < parts.size(); ++k) {
      const backend::Gathered& part = parts[k];
      char* to = static_cast<char*>(part.to);
      for (int64_t stripe = 0; stripe < part.stripes; ++stripe)
        for (size_t r = 0; r < group.size(); ++r, to += part.bytes)
          std::memcpy(to, static_cast<const char*>(m.gathered[r][k].from) + stripe * part.bytes, size_t(part.bytes));
    }
    shared_->arrive(m);
  }

  void reduce_scatter(const std::vector<int>& group, std::span<const backend::Reduced> parts) override {
    Meeting& m = shared_->meeting(group);
    const int64_t own = int64_t(position(group)), all = int64_t(group.size());
    m.reduced[size_t(own)] = parts;
    shared_->arrive(m);
    std::vector<const void*> rows(group.size());
    for (size_t k = 0; k < parts.size(); ++k) {
      const backend::Reduced& part = parts[k];
      const int64_t count = part.elements / (part.stripes * all), width = bytes(part.dtype);
      for (int64_t stripe = 0; stripe < part.stripes; ++stripe) {
        for (size_t r = 0; r < group.size(); ++r)
          rows[r] = static_cast<const char*>(m.reduced[r][k].from) + (stripe * all + own) * count * width;
        backend::combine(rows, static_cast<char*>(part.to) + stripe * count * width, 0, count, part.dtype,
                         part.accumulator);
      }
    }
    shared_->arrive(m);
  }

  void agree(const std::string&, const std::string&) override {}  // all workers have the same plan
  void stop(const std::string& why) override { shared_->stop(why); }

 private:
  size_t position(const std::vector<int>& group) const {
    return size_t(std::find(group.begin(), group.end(), rank_) - group.begin());
  }

  std::shared_ptr<Shared> shared_;
  int rank_, devices_;
};

}  // namespace

std::vector<std::shared_ptr<backend::Communicator>> make_communicators(int devices) {
  auto shared = std::make_shared<Shared>();
  shared->spins = devices <= processors().usable();
  std::vector<std::shared_ptr<backend::Communicator>> out;
  for (int rank = 0; rank < devices; ++rank) out.push_back(std::make_shared<Stream>(shared, rank, devices));
  return out;
}

}  // namespace caravan::streams
