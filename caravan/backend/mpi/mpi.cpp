#include "caravan/backend/mpi/mpi.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <type_traits>

#include "caravan/backend/kernel_cache.h"
#include "caravan/backend/mpi/ending.h"
#include "caravan/backend/mpi/heartbeat.h"
#include "caravan/backend/mpi/library.h"
#include "caravan/backend/mpi/pieces.h"
#include "caravan/base/error.h"
#include "caravan/target/exchange.h"
#include "caravan/target/waits.h"

namespace caravan::mpi {

namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<char>;

constexpr int kMultiple = 3;  // MPI_THREAD_MULTIPLE
constexpr int kValues = 1;    // tag of messages

// Limits after which all processes would speak are over a little later for higher ranks, so that one of them speaks.
std::chrono::seconds in_turn(std::chrono::seconds limit, const Launch& launch) {
  return limit + std::chrono::seconds(2 * std::min(launch.rank, 3));
}

// Which elements of an all-reduce or a reduce-scatter each process combines. The small shares of a process, and those
// with several stripes, are packed into one message; large ones are messages of their own, which need not be copied.
struct Shares {
  std::span<const backend::Reduced> parts;
  int64_t processes = 1;
  bool whole = false;   // there are few elements, and each process combines all of them
  bool slices = false;  // the shares are slices, which may have several stripes

  int64_t first(size_t k, size_t r) const { return whole ? 0 : parts[k].elements * int64_t(r) / processes; }
  int64_t last(size_t k, size_t r) const { return whole ? parts[k].elements : first(k, r + 1); }
  size_t bytes(size_t k, size_t r) const { return size_t((last(k, r) - first(k, r)) * caravan::bytes(parts[k].dtype)); }
  int64_t stripes(size_t k) const { return slices ? parts[k].stripes : 1; }
  bool alone(size_t k, size_t r) const {
    return stripes(k) == 1 && (bytes(k, r) >= kSentAlone || (parts.size() == 1 && bytes(k, r) > 0));
  }
  size_t packed(size_t r) const { return sum(r, parts.size(), false); }
  size_t bytes(size_t r) const { return packed(r) + sum(r, parts.size(), true); }
  // Where the share of a part begins in the memory of what process r receives: what is packed comes first.
  size_t offset(size_t k, size_t r) const { return alone(k, r) ? packed(r) + sum(r, k, true) : sum(r, k, false); }
  template <class Memory>
  auto at(Memory* memory, size_t k, size_t r) const {
    using Byte = std::conditional_t<std::is_const_v<Memory>, const char, char>;
    return static_cast<Byte*>(memory) + first(k, r) * caravan::bytes(parts[k].dtype);
  }
  void pack(size_t k, size_t r, char* to) const {
    if (bytes(k, r) == 0) return;
    const size_t size = bytes(k, r) / size_t(stripes(k));
    const char* from = stripes(k) == 1 ? at(parts[k].from, k, r) : static_cast<const char*>(parts[k].from) + r * size;
    for (int64_t stripe = 0; stripe < stripes(k); ++stripe, from += size_t(processes) * size, to += size)
      std::memcpy(to, from, size);
  }

 private:
  size_t sum(size_t r, size_t until, bool large) const {
    size_t out = 0;
    for (size_t k = 0; k < until; ++k) out += alone(k, r) == large ? bytes(k, r) : 0;
    return out;
  }
};

class Processes : public backend::Communicator {
 public:
  Processes(const Launch& launch, const Limits& limits) : launch_(launch), limits_(limits), mpi_(library()) {
    const TimeLimit limit(in_turn(limits.start, launch),
                          "not all of the " + std::to_string(launch.processes) + " processes have begun within " +
                              std::to_string(limits.start.count()) +
                              " seconds, so all of them stop; look for one that is stopped, hangs or is busy with "
                              "something else, and whether their machines reach each other, and start them again.");
    int provided = 0;
    mpi_.init_thread(nullptr, nullptr, kMultiple, &provided);
    if (provided < kMultiple) throw BackendError("this Open MPI was built without threads (MPI_THREAD_MULTIPLE).");
    heartbeat_ = std::make_unique<Heartbeat>(launch, limits);
  }
  ~Processes() override {
    std::fflush(nullptr);  // who is ended by a limit writes nothing more
    heartbeat_->end();
    Library::Request request = nullptr;
    mpi_.ibarrier(mpi_.world, &request);
    int done = 0;
    for (const auto start = Clock::now(); !done && Clock::now() - start < limits_.end;) {
      mpi_.test(&request, &done, nullptr);
      if (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!done) end_all();
    const TimeLimit limit(
        in_turn(limits_.parting, launch_),
        "process " + std::to_string(launch_.rank) + " of " + std::to_string(launch_.processes) +
            " is done, but has waited " + std::to_string(limits_.parting.count()) +
            " seconds for the end of the others or of mpirun, so all of them stop; what was saved is whole.");
    mpi_.finalize();
  }

  int rank() const override { return launch_.rank; }
  int devices() const override { return launch_.processes; }

  void all_reduce(const std::vector<int>& group, std::span<const backend::Reduced> parts) override {
    const size_t all = group.size(), own = position(group);
    int64_t total = 0;
    for (const backend::Reduced& p : parts) total += p.elements * bytes(p.dtype);
    const Shares shares{parts, int64_t(all), total <= (all == 2 ? kOneRoundOfTwo : kOneRound)};
    exchange_shares(group, shares);
    for (size_t k = 0; k < parts.size(); ++k) combine(shares, k, own, shares.at(parts[k].to, k, own));
    if (shares.whole) return;

    begin();  // the combined parts to all
    for (size_t r = 0; r < all; ++r) {
      if (r == own) continue;
      received_[r].resize(std::max(received_[r].size(), shares.packed(r)));
      receive(received_[r].data(), shares.packed(r), group[r]);
      for (size_t k = 0; k < parts.size(); ++k)
        if (shares.alone(k, r)) receive(shares.at(parts[k].to, k, r), shares.bytes(k, r), group[r]);
    }
    sent_[own].resize(shares.packed(own));
    for (size_t k = 0; k < parts.size(); ++k)
      if (!shares.alone(k, own) && shares.bytes(k, own) > 0)
        std::memcpy(sent_[own].data() + shares.offset(k, own), shares.at(parts[k].to, k, own), shares.bytes(k, own));
    for (size_t r = 0; r < all; ++r) {
      if (r == own) continue;
      send(sent_[own].data(), shares.packed(own), group[r]);
      for (size_t k = 0; k < parts.size(); ++k)
        if (shares.alone(k, own)) send(shares.at(parts[k].to, k, own), shares.bytes(k, own), group[r]);
    }
    wait();
    for (size_t r = 0; r < all; ++r)
      for (size_t k = 0; k < parts.size(); ++k)
        if (r != own && !shares.alone(k, r) && shares.bytes(k, r) > 0)
          std::memcpy(shares.at(parts[k].to, k, r), received_[r].data() + shares.offset(k, r), shares.bytes(k, r));
  }

  void all_gather(const std::vector<int>& group, std::span<const backend::Gathered> parts) override {
    const size_t all = group.size(), own = position(group);
    auto alone = [](const backend::Gathered& p) { return p.stripes == 1 && size_t(p.bytes) >= kSentAlone; };
    sent_.resize(all), received_.resize(all);
    sent_[own].clear();
    for (const backend::Gathered& p : parts)
      if (const char* from = static_cast<const char*>(p.from); !alone(p))
        sent_[own].insert(sent_[own].end(), from, from + p.stripes * p.bytes);
    const size_t packed = sent_[own].size();
    begin();
    for (size_t r = 0; r < all; ++r) {
      if (r == own) continue;
      received_[r].resize(packed);
      receive(received_[r].data(), packed, group[r]);
      for (const backend::Gathered& p : parts)
        if (alone(p)) receive(static_cast<char*>(p.to) + int64_t(r) * p.bytes, size_t(p.bytes), group[r]);
    }
    for (size_t r = 0; r < all; ++r) {
      if (r == own) continue;
      send(sent_[own].data(), packed, group[r]);
      for (const backend::Gathered& p : parts)
        if (alone(p)) send(static_cast<const char*>(p.from), size_t(p.bytes), group[r]);
    }
    wait();
    int64_t offset = 0;
    for (const backend::Gathered& p : parts) {
      char* to = static_cast<char*>(p.to);
      if (alone(p)) {
        std::memcpy(to + int64_t(own) * p.bytes, p.from, size_t(p.bytes));
        continue;
      }
      for (int64_t stripe = 0; stripe < p.stripes; ++stripe)
        for (size_t r = 0; r < all; ++r, to += p.bytes)
          std::memcpy(to, (r == own ? sent_[own] : received_[r]).data() + offset + stripe * p.bytes, size_t(p.bytes));
      offset += p.stripes * p.bytes;
    }
  }

  void reduce_scatter(const std::vector<int>& group, std::span<const backend::Reduced> parts) override {
    const Shares shares{parts, int64_t(group.size()), false, true};
    exchange_shares(group, shares);
    for (size_t k = 0; k < parts.size(); ++k) combine(shares, k, position(group), static_cast<char*>(parts[k].to));
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
        throw backend::Disagreement("process " + std::to_string(r) + " has " + what +
                                    " than process 0; all of them must be started with the same command and data.");
  }

  void set_urgent(bool urgent) override { urgent_.store(urgent, std::memory_order_relaxed); }

  void stop(const std::string& why) override {
    say("process " + std::to_string(launch_.rank) + " stops, and all others with it: " + why);
    end_all();
  }

 private:
  size_t position(const std::vector<int>& group) const {
    return size_t(std::find(group.begin(), group.end(), launch_.rank) - group.begin());
  }
  // Each process gets the values of all others that it combines, in received_.
  void exchange_shares(const std::vector<int>& group, const Shares& shares) {
    const size_t all = group.size(), own = position(group), parts = shares.parts.size();
    sent_.resize(all), received_.resize(all);
    begin();
    for (size_t r = 0; r < all; ++r) {
      if (r == own) continue;
      received_[r].resize(shares.bytes(own));
      receive(received_[r].data(), shares.packed(own), group[r]);
      for (size_t k = 0; k < parts; ++k)
        if (shares.alone(k, own)) receive(received_[r].data() + shares.offset(k, own), shares.bytes(k, own), group[r]);
    }
    for (size_t r = 0; r < all; ++r) {
      sent_[r].resize(shares.packed(r));
      for (size_t k = 0; k < parts; ++k)
        if (!shares.alone(k, r) && (r != own || shares.stripes(k) > 1))
          shares.pack(k, r, sent_[r].data() + shares.offset(k, r));
      if (r == own) continue;
      send(sent_[r].data(), shares.packed(r), group[r]);
      for (size_t k = 0; k < parts; ++k)
        if (shares.alone(k, r)) send(shares.at(shares.parts[k].from, k, r), shares.bytes(k, r), group[r]);
    }
    wait();
  }
  // out = the combination of this process's share of a part.
  void combine(const Shares& shares, size_t k, size_t own, char* out) {
    const backend::Reduced& p = shares.parts[k];
    if (shares.bytes(k, own) == 0) return;
    rows_.clear();
    for (size_t r = 0; r < size_t(shares.processes); ++r)
      rows_.push_back(r != own                 ? received_[r].data() + shares.offset(k, own)
                      : shares.stripes(k) == 1 ? shares.at(p.from, k, own)
                                               : sent_[own].data() + shares.offset(k, own));
    backend::combine(rows_, out, 0, shares.last(k, own) - shares.first(k, own), p.dtype, p.accumulator);
  }

  void begin() { messages_.clear(); }
  void receive(char* to, size_t bytes, int from) {
    in_pieces(bytes, [&](size_t first, int size) {
      Message& m = messages_.emplace_back(Message{from});
      mpi_.irecv(to + first, size, mpi_.byte, from, kValues, mpi_.world, &m.request);
    });
  }
  void send(const char* from, size_t bytes, int to) {
    in_pieces(bytes, [&](size_t first, int size) {
      Message& m = messages_.emplace_back(Message{to});
      mpi_.isend(from + first, size, mpi_.byte, to, kValues, mpi_.world, &m.request);
    });
  }
  // Asks again and again, and then with pauses: MPI_Waitall would never let others run. The pauses begin soon if the
  // device computes meanwhile, because often this is not the only thread of its processor.
  void wait() {
    const auto start = Clock::now();
    bool paused = false;
    for (Message& m : messages_)
      for (int done = 0;;) {
        mpi_.test(&m.request, &done, nullptr);
        if (done) break;
        if (Clock::now() - start > (urgent_.load(std::memory_order_relaxed) ? kBusyIfUrgent : kBusy)) {
          paused = true;
          heartbeat_->waits_for(m.process, start);
          std::this_thread::sleep_for(kPause);
        }
      }
    if (paused) heartbeat_->waits_no_more();
  }

  struct Message {
    int process = 0;  // the other one
    Library::Request request = nullptr;
  };

  const Launch launch_;
  const Limits limits_;
  const Library& mpi_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::vector<Bytes> sent_, received_;  // by process; kept, so that a step allocates little
  std::vector<const void*> rows_;       // of one combination
  std::vector<Message> messages_;       // under way
  std::atomic<bool> urgent_{false};
};

int number_of(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::atoi(text) : otherwise;
}

}  // namespace

Launch launch() {
  Launch out{number_of("OMPI_COMM_WORLD_RANK", 0), number_of("OMPI_COMM_WORLD_SIZE", 1),
             number_of("OMPI_COMM_WORLD_LOCAL_RANK", 0), std::max(1, number_of("OMPI_COMM_WORLD_LOCAL_SIZE", 1))};
  return out.processes > 1 ? out : Launch{};
}

std::string note() {
  try {
    char text[8192] = "";  // longer than any version of MPI
    int length = 0;
    library().get_version(text, &length);
    const std::string all = text;
    return all.substr(0, std::min(all.find(','), all.find('\n')));
  } catch (const BackendError& error) {
    return reason_of(error);
  }
}

std::shared_ptr<backend::Communicator> communicator(const Limits& limits) {
  static const std::shared_ptr<backend::Communicator> kCommunicator = std::make_shared<Processes>(launch(), limits);
  return kCommunicator;
}

}  // namespace caravan::mpi
