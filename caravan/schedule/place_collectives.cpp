#include "caravan/schedule/place_collectives.h"

#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "caravan/base/error.h"
#include "caravan/loop/walk.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

class Placer {
 public:
  explicit Placer(const Module& module)
      : out_(module),
        calls_(std::exchange(out_.collectives, {})),
        states_(calls_.size()),
        giver_(out_.buffers.size(), -1) {
    out_.observed.resize(out_.observed.size() - calls_.size());
    for (size_t c = 0; c < calls_.size(); ++c) {
      out_.buffers[size_t(calls_[c].writes[0])].kind = ir::Computed{};
      giver_[size_t(calls_[c].writes[0])] = int(c);
    }
  }

  Module run() {
    std::vector<Kernel> kernels = std::exchange(out_.kernels, {});
    writers_.assign(out_.buffers.size(), 0);
    for (const Kernel& kernel : kernels) for_each_write(kernel, [&](BufferId id) { ++writers_[size_t(id)]; });
    std::vector<size_t> left(kernels.size());
    std::iota(left.begin(), left.end(), size_t(0));
    while (!left.empty()) {
      std::vector<size_t> later;  // kernels that need values which are under way, and what must come after them
      std::set<BufferId> read_later, written_later;
      for (const size_t k : left) {
        bool waits = false;
        for_each_access(kernels[k], [&](const Access& a) {
          waits =
              waits || !is_here(a.buffer) || written_later.count(a.buffer) || (a.write && read_later.count(a.buffer));
        });
        if (waits) {
          for_each_access(kernels[k],
                          [&](const Access& a) { (a.write ? written_later : read_later).insert(a.buffer); });
          later.push_back(k);
          continue;
        }
        std::vector<BufferId> written;
        for_each_write(kernels[k], [&](BufferId id) { written.push_back(id); });
        std::erase_if(kernels[k].after, [&](BufferId id) { return is_sent(id); });
        out_.kernels.push_back(std::move(kernels[k]));
        for (const BufferId id : written)
          if (--writers_[size_t(id)] == 0) collect_all_of(id);
      }
      if (!later.empty())
        for_each_access(kernels[later[0]], [&](const Access& a) {
          if (!is_here(a.buffer)) finish(size_t(giver_[size_t(a.buffer)]));
        });
      left = std::move(later);
    }
    for (size_t c = 0; c < calls_.size(); ++c) finish(c);
    return std::move(out_);
  }

 private:
  enum class Progress : uint8_t { open, collected, begun, finished };
  struct State {
    Progress progress = Progress::open;
    size_t kernel = 0;  // of its call
  };

  // Calls visit(buffer) once for each buffer that the kernel writes.
  template <class Visit>
  static void for_each_write(const Kernel& kernel, Visit visit) {
    std::set<BufferId> seen;
    for_each_access(kernel, [&](const Access& a) {
      if (a.write && seen.insert(a.buffer).second) visit(a.buffer);
    });
  }
  bool is_here(BufferId id) const {
    return giver_[size_t(id)] < 0 || states_[size_t(giver_[size_t(id)])].progress == Progress::finished;
  }
  void collect_all_of(BufferId sent) {
    for (size_t c = 0; c < calls_.size(); ++c)
      if (calls_[c].reads[0] == sent && states_[c].progress == Progress::open) collect(c);
  }
  bool is_sent(BufferId id) const {
    for (const LibraryCall& call : calls_)
      if (call.reads[0] == id) return true;
    return false;
  }
  static const LibraryCall::Collective& collective(const LibraryCall& call) {
    return std::get<LibraryCall::Collective>(call.function);
  }
  int64_t bytes_of(const LibraryCall& call) const {
    const ir::Buffer& b = out_.buffers[size_t(call.reads[0])];
    return b.shape.elements() * bytes(b.dtype);
  }
  const std::string& name(BufferId id) const { return out_.buffers[size_t(id)].name; }

  void collect(size_t c) {
    states_[c].progress = Progress::collected;
    collected_.push_back(c);
    collected_bytes_ += bytes_of(calls_[c]);
    if (collected_bytes_ >= kCombinedBytes) begin();
  }

  // Begins all that are collected: a call for each function and axis of the mesh.
  void begin() {
    std::map<std::pair<ir::Collective::Kind, int>, std::vector<size_t>> groups;
    for (const size_t c : collected_) {
      const ir::Collective& exchange = collective(calls_[c]).exchange;
      groups[{exchange.kind, exchange.mesh_axis}].push_back(c);
    }
    for (const auto& [key, members] : groups) {
      LibraryCall::Collective together{{key.first, key.second}, {}};
      std::vector<BufferId> writes, reads;
      for (const size_t c : members) {
        writes.push_back(calls_[c].writes[0]), reads.push_back(calls_[c].reads[0]);
        together.values.push_back(collective(calls_[c]).values[0]);
        states_[c] = {Progress::begun, out_.kernels.size()};
      }
      add({std::move(together), std::move(writes), std::move(reads)}, "");
    }
    collected_.clear(), collected_bytes_ = 0;
  }

  // Waits for the call, if nothing has waited for it yet.
  void finish(size_t c) {
    if (states_[c].progress == Progress::finished) return;
    if (const int before = giver_[size_t(calls_[c].reads[0])]; before >= 0) finish(size_t(before));
    if (states_[c].progress == Progress::open) collect(c);
    if (states_[c].progress == Progress::collected) begin();
    const size_t kernel = states_[c].kernel;
    LibraryCall wait = *library_call(out_.kernels[kernel]);
    wait.function = LibraryCall::Wait{kernel};
    std::vector<size_t> received;
    for (size_t k = 0; k < calls_.size(); ++k)
      if (states_[k].progress == Progress::begun && states_[k].kernel == kernel)
        states_[k].progress = Progress::finished, received.push_back(k);
    add(std::move(wait), "wait for ");
    for (const size_t k : received) collect_all_of(calls_[k].writes[0]);  // what was waiting for these values
  }

  void add(LibraryCall call, const std::string& before) {
    CARAVAN_CHECK(!call.reads.empty(), "a collective of nothing");
    Kernel kernel;
    kernel.name = name(call.writes[0]);
    std::string text = before;
    for (size_t k = 0; k < call.writes.size(); ++k) text += (k == 0 ? "the exchange of " : ", ") + name(call.reads[k]);
    kernel.comments = {std::move(text)};
    kernel.body = std::move(call);
    out_.kernels.push_back(std::move(kernel));
  }

  Module out_;
  std::vector<LibraryCall> calls_;  // of one buffer each
  std::vector<State> states_;       // of the calls
  std::vector<int> giver_;          // by buffer: the call that gives it, or -1
  std::vector<int> writers_;        // by buffer: kernels that write it and are not placed yet
  std::vector<size_t> collected_;
  int64_t collected_bytes_ = 0;
};

}  // namespace

Module place_collectives(const Module& module) { return module.collectives.empty() ? module : Placer(module).run(); }

}  // namespace caravan::schedule
