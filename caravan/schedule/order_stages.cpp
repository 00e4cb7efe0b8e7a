#include "caravan/schedule/order_stages.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "caravan/loop/dependence.h"
#include "caravan/loop/grid.h"
#include "caravan/loop/walk.h"
#include "caravan/target/prelude_sizes.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

// An access that writes, and the extents of the loops around it. Without extents it may be anywhere in the buffer.
struct Write {
  Term offset;
  std::map<Variable, int64_t> extents;
};

// Do two kernels write different slices of a buffer? In y[384*t + 32*h + d] and y[384*t + 32*h + d + 128], where h < 4
// and d < 32, they do: the second one begins 4 steps of h further, and both end before the next t.
bool different_slices(const Write& a, const Write& b) {
  std::map<int64_t, int64_t> strides;  // and extents
  for (const Write* w : {&a, &b}) {
    std::map<int64_t, int64_t> own;
    for (const Term::Part& part : w->offset.parts) {
      if (part.kind != Term::Part::Kind::iterator || part.coefficient <= 0) return false;
      auto at = w->extents.find(part.which);
      if (at == w->extents.end() || !own.emplace(part.coefficient, at->second).second) return false;
    }
    if (w == &b && own != strides) return false;
    strides = std::move(own);
  }
  const int64_t first = std::min(a.offset.constant, b.offset.constant),
                distance = std::max(a.offset.constant, b.offset.constant) - first;
  int64_t below = 0;  // how far the loops of smaller strides reach
  for (auto at = strides.begin(); at != strides.end(); ++at) {
    const auto& [stride, extent] = *at;
    const auto next = std::next(at);
    const int64_t inside = next == strides.end() ? std::numeric_limits<int64_t>::max() : next->first;
    const int64_t reach = below + (extent - 1) * stride;
    if (below < stride && distance % stride == 0 && distance / stride >= extent &&
        first % inside + distance + reach < inside)
      return true;
    below = reach;
  }
  return false;
}

// A launch of a stage that may take more kernels.
class Open {
 public:
  explicit Open(int number) : number_(number) {}

  bool takes(const Kernel& kernel, const Gpu& gpu) const {
    if (!has_statements(kernel) || alone_) return false;
    Launch with = launch_;
    with.add(kernel);
    if (arguments_ + arguments(kernel) > gpu.most_arguments) return false;
    // A product needs many registers, which the threads of a large block do not have.
    const bool product = product_ || !kernel.contractions.empty();
    if (product && with.threads > gpu.threads) return false;
    if (blocks_ == 0) return true;
    const int64_t blocks = blocks_ + blocks_of(kernel, kernel.grid.threads);
    if (with.shared_bytes <= prelude_sizes::kAcrossBytes) return std::max(blocks_, blocks - blocks_) <= gpu.most_joined;
    const int64_t at_once = gpu.multiprocessors * (gpu.shared_bytes / with.shared_bytes);
    return blocks <= at_once || std::min(blocks_, blocks - blocks_) * gpu.waiting_part <= at_once;
  }
  void add(Kernel& kernel) {
    kernel.grid.launch = number_;
    alone_ = !has_statements(kernel);
    arguments_ += arguments(kernel), blocks_ += blocks_of(kernel, kernel.grid.threads);
    launch_.add(kernel);
    product_ = product_ || !kernel.contractions.empty();
  }

 private:
  static int64_t arguments(const Kernel& kernel) {  // at least as many as the launch will have for it
    std::set<std::pair<int, int>> out;
    auto add = [&](const Term& term) {
      for (const Term::Part& part : term.parts)
        if (part.kind == Term::Part::Kind::symbol) out.emplace(1, part.which);
    };
    for_each_access(kernel, [&](const Access& a) { out.emplace(0, int(a.buffer)), add(*a.offset); });
    return int64_t(out.size()) + 4;  // symbols in conditions and in random numbers
  }

  int number_;
  Launch launch_;
  int64_t arguments_ = 0, blocks_ = 0;
  bool product_ = false;
  bool alone_ = false;  // it has a library call or attention
};

// Some kernels run as late as possible: what is computed from nothing, such as zeros, because its memory would be taken
// from the beginning of the step on, and what has little work, because it can be launched with others later. Only
// kernels that are in the way of nothing else are moved.
void delay(Module& module, const Gpu& gpu) {
  int last = 0;
  for (const Kernel& kernel : module.kernels) last = std::max(last, kernel.grid.stage);
  std::map<BufferId, int> read, written;  // the first stage of a later kernel that reads or writes a buffer
  for (size_t k = module.kernels.size(); k-- > 0;) {
    Kernel& kernel = module.kernels[k];
    int latest = last;
    bool reads = !kernel.after.empty();
    auto before = [&](const std::map<BufferId, int>& first, BufferId id) {
      if (auto at = first.find(id); at != first.end()) latest = std::min(latest, at->second - 1);
    };
    for_each_access(kernel, [&](const Access& a) {
      reads = reads || !a.write;
      before(written, a.buffer);
      if (a.write) before(read, a.buffer);
    });
    const bool small = !library_call(kernel) && blocks_of(kernel, kernel.grid.threads) <= gpu.few_blocks;
    if ((small || !reads) && latest > kernel.grid.stage) kernel.grid.stage = latest;
    auto note = [&](std::map<BufferId, int>& first, BufferId id) {
      int& stage = first.try_emplace(id, kernel.grid.stage).first->second;
      stage = std::min(stage, kernel.grid.stage);
    };
    for_each_access(kernel, [&](const Access& a) { note(a.write ? written : read, a.buffer); });
    for (const BufferId id : kernel.after) note(read, id);
  }
}

// Collectives and waits keep their places: kernels that come before one stay before it, so that a device waits as late
// as it did.
bool is_exchange(const Kernel& kernel) {
  const LibraryCall* call = library_call(kernel);
  return call && (std::holds_alternative<LibraryCall::Collective>(call->function) ||
                  std::holds_alternative<LibraryCall::Wait>(call->function));
}
// Kernels have other numbers now: a wait is for the collective that writes the same buffers.
void name_collectives(Module& module) {
  std::map<std::vector<BufferId>, size_t> collectives;
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    if (!is_exchange(module.kernels[k])) continue;
    auto& call = std::get<LibraryCall>(module.kernels[k].body);
    if (auto* wait = std::get_if<LibraryCall::Wait>(&call.function))
      wait->kernel = collectives.at(call.writes);
    else
      collectives[call.writes] = k;
  }
}

}  // namespace

Module order_stages(const Module& module, const Target& target) {
  Module out = module;
  std::map<BufferId, int> written, read;  // the last stage so far that writes or reads a buffer
  struct Writer {
    Write write;
    int stage;
  };
  std::map<BufferId, std::vector<Writer>> writers;  // of each buffer so far
  int begin = 0, end = 0;                           // stages after the last collective or wait, and after all
  for (Kernel& kernel : out.kernels) {
    int stage = is_exchange(kernel) ? end : begin;
    auto after = [&](const std::map<BufferId, int>& last, BufferId id) {
      if (auto at = last.find(id); at != last.end()) stage = std::max(stage, at->second + 1);
    };
    const std::map<Variable, int64_t> extents = extents_of(statements(std::as_const(kernel)));
    std::set<BufferId> reads;
    for_each_access(kernel, [&](const Access& a) {
      if (!a.write) reads.insert(a.buffer);
    });
    std::vector<std::pair<BufferId, Write>> writes;
    for_each_access(kernel, [&](const Access& a) {
      if (!a.write) return after(written, a.buffer);
      after(read, a.buffer);
      const Write own{*a.offset, reads.count(a.buffer) ? std::map<Variable, int64_t>() : extents};
      for (const Writer& other : writers[a.buffer])
        if (!different_slices(own, other.write)) stage = std::max(stage, other.stage + 1);
      writes.emplace_back(a.buffer, own);
    });
    for (const BufferId id : kernel.after) after(written, id);
    kernel.grid.stage = stage;
    end = std::max(end, stage + 1);
    if (is_exchange(kernel)) begin = end;
    for (auto& [id, write] : writes) writers[id].push_back({std::move(write), stage});
    for_each_access(kernel, [&](const Access& a) {
      int& last = (a.write ? written : read).try_emplace(a.buffer, stage).first->second;
      last = std::max(last, stage);
    });
  }
  delay(out, target.gpu);
  std::stable_sort(out.kernels.begin(), out.kernels.end(),
                   [](const Kernel& a, const Kernel& b) { return a.grid.stage < b.grid.stage; });
  int launches = 0, stage = -1;
  std::vector<Open> open;
  for (Kernel& kernel : out.kernels) {
    if (kernel.grid.stage != stage) open.clear(), stage = kernel.grid.stage;
    auto at = std::find_if(open.begin(), open.end(), [&](const Open& o) { return o.takes(kernel, target.gpu); });
    if (at == open.end()) at = open.insert(open.end(), Open(launches++));
    at->add(kernel);
  }
  // Blocks start in order, and so those with most work are the first of a launch.
  std::vector<std::pair<int64_t, Kernel>> by_work;
  for (Kernel& kernel : out.kernels) {
    const int64_t work = has_statements(kernel) ? count_flops(kernel) / blocks_of(kernel, kernel.grid.threads) : 0;
    by_work.emplace_back(work, std::move(kernel));
  }
  std::stable_sort(by_work.begin(), by_work.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.grid.launch, b.first) < std::pair(b.second.grid.launch, a.first);
  });
  out.kernels.clear();
  for (auto& [work, kernel] : by_work) out.kernels.push_back(std::move(kernel));
  name_collectives(out);
  return out;
}

}  // namespace caravan::schedule
