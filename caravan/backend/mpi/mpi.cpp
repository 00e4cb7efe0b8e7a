#include "caravan/backend/mpi/mpi.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "caravan/backend/kernel_cache.h"
#include "caravan/backend/mpi/library.h"
#include "caravan/base/error.h"

namespace caravan::mpi {

namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<char>;

constexpr int kMultiple = 3;            // MPI_THREAD_MULTIPLE
constexpr int kValues = 1, kAlive = 2;  // tags of messages
constexpr int kFailed = 3;              // exit code: the machine failed
// Up to so many bytes, all processes send all they have to all others, and each combines everything: one round of
// messages instead of two.
constexpr int64_t kSmall = 8 << 10;
constexpr std::chrono::microseconds kBusy{100}, kPause{20};  // of a wait for messages

void say(const std::string& text) {  // by one write, so that lines of processes do not mix
  const std::string line = "caravan: " + text + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

// Signs of life of a ring of processes, by a thread and messages of its own.
class Heartbeat {
 public:
  Heartbeat(const Launch& launch) : launch_(launch) {
    library().comm_dup(library().world, &comm_);
    thread_ = std::thread([this] { beat(); });
  }
  void end() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void beat() {
    const Library& mpi = library();
    const int next = (launch_.rank + 1) % launch_.processes,
              previous = (launch_.rank + launch_.processes - 1) % launch_.processes;
    char sent = 0, received = 0;
    Library::Request sending = nullptr, receiving = nullptr;
    bool is_sending = false;
    mpi.irecv(&received, 1, mpi.byte, previous, kAlive, comm_, &receiving);
    auto heard = Clock::now();
    for (std::unique_lock lock(mutex_); !changed_.wait_for(lock, std::chrono::seconds(1), [&] { return stop_; });) {
      int done = 1;
      if (is_sending) mpi.test(&sending, &done, nullptr);
      if (done) mpi.isend(&sent, 1, mpi.byte, next, kAlive, comm_, &sending), is_sending = true;
      for (mpi.test(&receiving, &done, nullptr); done; mpi.test(&receiving, &done, nullptr)) {
        heard = Clock::now();
        mpi.irecv(&received, 1, mpi.byte, previous, kAlive, comm_, &receiving);
      }
      if (Clock::now() - heard < std::chrono::seconds(kSilenceSeconds)) continue;
      say("process " + std::to_string(previous) + " of " + std::to_string(launch_.processes) +
          " has not answered for " + std::to_string(kSilenceSeconds) +
          " seconds, so all of them stop; the last checkpoint can be resumed.");
      mpi.abort(mpi.world, kFailed);
      _exit(kFailed);
    }
  }

  const Launch launch_;
  Library::Comm comm_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

class Processes : public backend::Communicator {
 public:
  explicit Processes(const Launch& launch) : launch_(launch), mpi_(library()) {
    int provided = 0;
    mpi_.init_thread(nullptr, nullptr, kMultiple, &provided);
    if (provided < kMultiple) throw BackendError("this Open MPI was built without threads (MPI_THREAD_MULTIPLE).");
    heartbeat_ = std::make_unique<Heartbeat>(launch);
  }
  ~Processes() override {
    heartbeat_->end();
    Library::Request request = nullptr;
    mpi_.ibarrier(mpi_.world, &request);
    int done = 0;
    for (const auto start = Clock::now(); !done && Clock::now() - start < std::chrono::seconds(3);) {
      mpi_.test(&request, &done, nullptr);
      if (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (done)
      mpi_.finalize();
    else
      mpi_.abort(mpi_.world, kFailed);
  }

  int rank() const override { return launch_.rank; }
  int devices() const override { return launch_.processes; }

  void all_reduce(const std::vector<int>& group, std::span<const backend::Reduced> parts) override {
    const size_t all = group.size(), own = position(group);
    int64_t total = 0;
    for (const backend::Reduced& p : parts) total += p.elements * bytes(p.dtype);
    const bool small = total <= kSmall;
    // Of part p, process r combines the elements from first(p, r) on; if there are few, each combines all of them.
    auto first = [&](const backend::Reduced& p, size_t r) {
      return small ? 0 : p.elements * int64_t(r) / int64_t(all);
    };
    auto last = [&](const backend::Reduced& p, size_t r) { return small ? p.elements : first(p, r + 1); };
    auto size_of = [&](size_t r) {
      int64_t out = 0;
      for (const backend::Reduced& p : parts) out += (last(p, r) - first(p, r)) * bytes(p.dtype);
      return size_t(out);
    };
    sent_.resize(all), received_.resize(all);
    begin();
    for (size_t r = 0; r < all; ++r) {
      if (r == own) continue;
      received_[r].resize(size_of(own));
      receive(received_[r], group[r]);
    }
    for (size_t r = 0; r < all; ++r) {
      if (r == own) continue;
      sent_[r].resize(size_of(r));
      char* to = sent_[r].data();
      for (const backend::Reduced& p : parts) {
        const int64_t width = bytes(p.dtype), count = (last(p, r) - first(p, r)) * width;
        if (count > 0)
          std::memcpy(to, static_cast<const char*>(p.from) + first(p, r) * width, size_t(count)), to += count;
      }
      send(sent_[r], group[r]);
    }
    wait();
    std::vector<const void*> rows(all);
    int64_t offset = 0;
    for (const backend::Reduced& p : parts) {
      const int64_t width = bytes(p.dtype), from = first(p, own), count = last(p, own) - from;
      for (size_t r = 0; r < all; ++r)
        rows[r] = r == own ? static_cast<const char*>(p.from) + from * width : received_[r].data() + offset;
      if (count > 0) backend::combine(rows, static_cast<char*>(p.to) + from * width, 0, count, p.dtype, p.accumulator);
      offset += count * width;
    }
    if (small) return;

    begin();  // the combined parts to all
    for (size_t r = 0; r < all; ++r) {
      if (r == own) continue;
      received_[r].resize(size_of(r));
      receive(received_[r], group[r]);
    }
    sent_[own].resize(size_of(own));
    char* to = sent_[own].data();
    for (const backend::Reduced& p : parts) {
      const int64_t width = bytes(p.dtype), count = (last(p, own) - first(p, own)) * width;
      if (count > 0) std::memcpy(to, static_cast<char*>(p.to) + first(p, own) * width, size_t(count)), to += count;
    }
    for (size_t r = 0; r < all; ++r)
      if (r != own) send(sent_[own], group[r]);
    wait();
    for (size_t r = 0; r < all; ++r) {
      if (r == own) continue;
      const char* at = received_[r].data();
      for (const backend::Reduced& p : parts) {
        const int64_t width = bytes(p.dtype), count = (last(p, r) - first(p, r)) * width;
        if (count > 0) std::memcpy(static_cast<char*>(p.to) + first(p, r) * width, at, size_t(count)), at += count;
      }
    }
  }

  void all_gather(const std::vector<int>& group, std::span<const backend::Gathered> parts) override {
    const size_t all = group.size(), own = position(group);
    int64_t total = 0;
    for (const backend::Gathered& p : parts) total += p.pieces * p.bytes;
    sent_.resize(all), received_.resize(all);
    sent_[own].clear();
    for (const backend::Gathered& p : parts) {
      const char* from = static_cast<const char*>(p.from);
      sent_[own].insert(sent_[own].end(), from, from + p.pieces * p.bytes);
    }
    begin();
    for (size_t r = 0; r < all; ++r) {
      if (r == own) continue;
      received_[r].resize(size_t(total));
      receive(received_[r], group[r]);
    }
    for (size_t r = 0; r < all; ++r)
      if (r != own) send(sent_[own], group[r]);
    wait();
    int64_t offset = 0;
    for (const backend::Gathered& p : parts) {
      char* to = static_cast<char*>(p.to);
      for (int64_t piece = 0; piece < p.pieces; ++piece)
        for (size_t r = 0; r < all; ++r, to += p.bytes)
          std::memcpy(to, (r == own ? sent_[own] : received_[r]).data() + offset + piece * p.bytes, size_t(p.bytes));
      offset += p.pieces * p.bytes;
    }
  }

  void agree(const std::string& what, const std::string& text) override {
    const std::string own = backend::digest(text);
    std::string all(own.size() * size_t(launch_.processes), ' ');
    std::vector<int> group;
    for (int r = 0; r < launch_.processes; ++r) group.push_back(r);
    const backend::Gathered part{own.data(), all.data(), 1, int64_t(own.size())};
    all_gather(group, {&part, 1});
    for (int r = 1; r < launch_.processes; ++r)
      if (all.compare(size_t(r) * own.size(), own.size(), all, 0, own.size()) != 0)
        throw BackendError("process " + std::to_string(r) + " has another " + what +
                           " than process 0; all of them must be started with the same command and data.");
  }

  void stop(const std::string& why) override {
    say("process " + std::to_string(launch_.rank) + " stops, and all others with it: " + why);
    mpi_.abort(mpi_.world, kFailed);
    _exit(kFailed);
  }

 private:
  size_t position(const std::vector<int>& group) const {
    return size_t(std::find(group.begin(), group.end(), launch_.rank) - group.begin());
  }
  void begin() { requests_.clear(); }
  void receive(Bytes& to, int from) {
    check_size(to);
    mpi_.irecv(to.data(), int(to.size()), mpi_.byte, from, kValues, mpi_.world, &requests_.emplace_back());
  }
  void send(const Bytes& from, int to) {
    check_size(from);
    mpi_.isend(from.data(), int(from.size()), mpi_.byte, to, kValues, mpi_.world, &requests_.emplace_back());
  }
  static void check_size(const Bytes& message) {
    if (message.size() > size_t(INT_MAX)) throw BackendError("a message of more than 2 GB cannot be sent.");
  }
  // Asks again and again for some microseconds, and then with pauses: often this is not the only thread of its
  // processor, and MPI_Waitall would take half of it.
  void wait() {
    const auto start = Clock::now();
    for (Library::Request& request : requests_)
      for (int done = 0;;) {
        mpi_.test(&request, &done, nullptr);
        if (done) break;
        if (Clock::now() - start > kBusy) std::this_thread::sleep_for(kPause);
      }
  }

  const Launch launch_;
  const Library& mpi_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::vector<Bytes> sent_, received_;  // by process; kept, so that a step allocates little
  std::vector<Library::Request> requests_;
};

int number_of(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::atoi(text) : otherwise;
}

}  // namespace

Launch launch() {
  Launch out{number_of("OMPI_COMM_WORLD_RANK", 0), number_of("OMPI_COMM_WORLD_SIZE", 1)};
  return out.processes > 1 ? out : Launch{};
}

std::shared_ptr<backend::Communicator> communicator() {
  static const std::shared_ptr<backend::Communicator> kCommunicator = std::make_shared<Processes>(launch());
  return kCommunicator;
}

}  // namespace caravan::mpi
