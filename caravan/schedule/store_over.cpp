#include "caravan/schedule/store_over.h"

#include <algorithm>
#include <set>
#include <vector>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

// The loops around a store, and the block that contains it.
struct StorePlace {
  std::vector<const For*> loops;
  const Store* store = nullptr;
  bool guarded = false;
};
// The only access to this buffer, if it is a store.
StorePlace only_store(const Kernel& kernel, BufferId id) {
  StorePlace out;
  int accesses = 0;
  for_each_with_path(statements(kernel), [&](const Statement& s, const Path& path) {
    if (inside(s)) return;
    for_each_access(s, [&](const Access& a) {
      if (a.buffer != id) return;
      ++accesses;
      out.loops = loops_of(path), out.store = std::get_if<Store>(&s), out.guarded = out.loops.size() < path.size();
    });
  });
  if (accesses != 1) out.store = nullptr;
  return out;
}

// Is the old tensor read before the innermost loop of the store, or where the same element is stored just after?
bool read_before(const Kernel& kernel, const StorePlace& place, BufferId old) {
  const Block& body = place.loops.back()->body;
  std::set<const Statement*> same;  // statements of the body up to the store
  for (const Statement& s : body) {
    same.insert(&s);
    if (std::get_if<Store>(&s) == place.store) break;
  }
  bool begun = false, out = true;
  for_each_statement(statements(kernel), [&](const Statement& s) {
    begun = begun || &s == &body.front();
    if (inside(s)) return;
    for_each_access(s, [&](const Access& a) {
      if (a.buffer != old) return;
      out = out && !a.write && (!begun || (same.count(&s) && *a.offset == place.store->offset));
    });
  });
  return out;
}

void rename_buffer(Kernel& kernel, BufferId from, BufferId to) {
  auto now = [&](BufferId id) { return id == from ? to : id; };
  if (has_statements(kernel)) rename(statements(kernel), {nullptr, nullptr, now});
  if (auto* call = std::get_if<LibraryCall>(&kernel.body))
    for (std::vector<BufferId>* all : {&call->reads, &call->writes})
      std::transform(all->begin(), all->end(), all->begin(), now);
  if (auto* a = std::get_if<Attention>(&kernel.body)) {
    for (std::vector<Attention::Rows>* all : {&a->reads, &a->writes})
      for (Attention::Rows& rows : *all) rows.buffer = now(rows.buffer);
    for (BufferId* id : {&a->totals, &a->dots, &a->sums}) *id = now(*id);
  }
  std::transform(kernel.after.begin(), kernel.after.end(), kernel.after.begin(), now);
}

class Overwriter {
 public:
  Overwriter(const Module& module, const Gpu& gpu) : out_(module), gpu_(gpu), used_(module.buffers.size()) {
    for (size_t k = 0; k < out_.kernels.size(); ++k) {
      for_each_access(out_.kernels[k], [&](const Access& a) { note(a.buffer, k); });
      for (const BufferId id : out_.kernels[k].after) note(id, k);
    }
    for (const BufferId id : out_.observed) wanted_.insert(id);
    for (const auto& a : out_.assignments) wanted_.insert(a.value), wanted_.insert(a.state);
    for (const LibraryCall& call : out_.collectives)
      for (const std::vector<BufferId>* all : {&call.reads, &call.writes}) wanted_.insert(all->begin(), all->end());
  }
  Module run() {
    for (size_t k = 0; k < out_.kernels.size(); ++k)
      if (has_statements(out_.kernels[k])) look(k);
    return std::move(out_);
  }

 private:
  struct Used {  // the first and the last kernel
    size_t first = size_t(-1), last = 0;
  };
  void note(BufferId id, size_t kernel) {
    Used& used = used_[size_t(id)];
    used.first = std::min(used.first, kernel), used.last = std::max(used.last, kernel);
  }
  bool is_large(BufferId id) const {
    const ir::Buffer& buffer = out_.buffers[size_t(id)];
    return std::holds_alternative<ir::Computed>(buffer.kind) && !wanted_.count(id) &&
           buffer.shape.elements() * bytes(buffer.dtype) >= gpu_.least_ordered;
  }
  void look(size_t k) {
    std::set<BufferId> made, read;
    for_each_access(out_.kernels[k], [&](const Access& a) {
      if (!is_large(a.buffer)) return;
      if (a.write && used_[size_t(a.buffer)].first == k) made.insert(a.buffer);
      if (!a.write && used_[size_t(a.buffer)].first < k && used_[size_t(a.buffer)].last == k) read.insert(a.buffer);
    });
    for (const BufferId id : made)
      for (const BufferId old : read)
        if (overwrite(k, id, old)) {
          read.erase(old);
          break;
        }
  }
  bool overwrite(size_t k, BufferId made, BufferId old) {
    const ir::Buffer &from = out_.buffers[size_t(old)], &to = out_.buffers[size_t(made)];
    if (from.dtype != to.dtype || from.shape.elements() != to.shape.elements()) return false;
    const StorePlace place = only_store(out_.kernels[k], made);
    if (!place.store || place.guarded || place.loops.empty() || !read_before(out_.kernels[k], place, old)) return false;
    for (const For* loop : place.loops) {
      Block body = loop->body;
      rename(body, {nullptr, nullptr, [&](BufferId id) { return id == made ? old : id; }});
      if (!independent(loop->variable, loop->extent, body)) return false;
    }
    for (size_t later = k; later <= used_[size_t(made)].last; ++later) rename_buffer(out_.kernels[later], made, old);
    used_[size_t(old)].last = used_[size_t(made)].last;
    return true;
  }

  Module out_;
  const Gpu& gpu_;
  std::vector<Used> used_;  // by buffer
  std::set<BufferId> wanted_;
};

}  // namespace

Module store_over(const Module& module, const Target& target) { return Overwriter(module, target.gpu).run(); }

}  // namespace caravan::schedule
