#include "caravan/schedule/order_stages.h"

#include <algorithm>
#include <map>
#include <set>

#include "caravan/loop/grid.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

// A launch of a stage that may take more kernels.
class Open {
 public:
  explicit Open(int number) : number_(number) {}

  bool takes(const Kernel& kernel, const Gpu& gpu) const {
    const int64_t cluster = cluster_of(kernel), shared = std::max(shared_, shared_bytes(kernel));
    if (library_call(kernel) || (cluster_ > 1 && cluster > 1 && cluster != cluster_)) return false;
    if (arguments_ + arguments(kernel) > gpu.most_arguments) return false;
    if (blocks_ == 0) return true;
    const int64_t blocks = blocks_ + blocks_of(kernel, kernel.grid.threads);
    if (shared <= kAcrossBytes) return std::max(blocks_, blocks - blocks_) <= gpu.most_joined;
    return blocks <= gpu.multiprocessors * (gpu.shared_bytes / shared);
  }
  void add(Kernel& kernel) {
    kernel.grid.launch = number_;
    arguments_ += arguments(kernel), blocks_ += blocks_of(kernel, kernel.grid.threads);
    shared_ = std::max(shared_, shared_bytes(kernel)), cluster_ = std::max(cluster_, cluster_of(kernel));
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
  int64_t arguments_ = 0, blocks_ = 0, shared_ = 0, cluster_ = 1;
};

}  // namespace

Module order_stages(const Module& module, const Target& target) {
  Module out = module;
  std::map<BufferId, int> written, read;  // the last stage so far that writes or reads a buffer
  for (Kernel& kernel : out.kernels) {
    int stage = 0;
    auto after = [&](const std::map<BufferId, int>& last, BufferId id) {
      if (auto at = last.find(id); at != last.end()) stage = std::max(stage, at->second + 1);
    };
    for_each_access(kernel, [&](const Access& a) {
      after(written, a.buffer);
      if (a.write) after(read, a.buffer);
    });
    for (const BufferId id : kernel.after) after(written, id);
    kernel.grid.stage = stage;
    for_each_access(kernel, [&](const Access& a) {
      int& last = (a.write ? written : read).try_emplace(a.buffer, stage).first->second;
      last = std::max(last, stage);
    });
  }
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
  std::stable_sort(out.kernels.begin(), out.kernels.end(),
                   [](const Kernel& a, const Kernel& b) { return a.grid.launch < b.grid.launch; });
  return out;
}

}  // namespace caravan::schedule
