#include "caravan/schedule/update_in_place.h"

#include <algorithm>

#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

struct Place {
  size_t kernel = 0, number = 0;  // of the access, in the order of statements
  Term offset;
};
struct Accesses {
  std::vector<Place> reads, writes;
  bool named = true;  // by statements alone, in which another buffer can be named
};

// Is the old state never read after the value is stored, but by what computes the same element? Readers of the value
// read the state then.
bool in_place(const Accesses& state, const Accesses& value) {
  if (value.writes.size() != 1 || !state.writes.empty() || !value.named) return false;
  const Place& store = value.writes[0];
  return std::all_of(state.reads.begin(), state.reads.end(), [&](const Place& read) {
    return read.kernel < store.kernel ||
           (read.kernel == store.kernel && read.number < store.number && read.offset == store.offset);
  });
}

}  // namespace

Module update_in_place(const Module& module) {
  Module out = module;
  std::vector<Accesses> accesses(out.buffers.size());
  size_t number = 0;
  for (size_t k = 0; k < out.kernels.size(); ++k)
    for_each_access(out.kernels[k], [&](const loop::Access& a) {
      Accesses& of = accesses[size_t(a.buffer)];
      (a.write ? of.writes : of.reads).push_back({k, number++, *a.offset});
      of.named = of.named && has_statements(out.kernels[k]);
    });
  std::vector<int> wanted(out.buffers.size(), 0);  // by buffer: how often it is observed or assigned
  for (BufferId id : out.observed) ++wanted[size_t(id)];
  for (const auto& a : out.assignments) ++wanted[size_t(a.value)];

  std::vector<ir::Assignment> rest;
  for (const ir::Assignment& a : out.assignments) {
    const ir::Buffer &state = out.buffers[size_t(a.state)], &value = out.buffers[size_t(a.value)];
    const bool own = std::holds_alternative<ir::Computed>(value.kind) && state.dtype == value.dtype &&
                     wanted[size_t(a.value)] == 1 && wanted[size_t(a.state)] == 0;
    if (!own || !in_place(accesses[size_t(a.state)], accesses[size_t(a.value)])) {
      rest.push_back(a);
      continue;
    }
    const Accesses& value_accesses = accesses[size_t(a.value)];
    auto rename_in = [&](const Place& place) {
      rename(statements(out.kernels[place.kernel]),
             {nullptr, nullptr, [&](BufferId id) { return id == a.value ? a.state : id; }});
    };
    rename_in(value_accesses.writes[0]);
    for (const Place& read : value_accesses.reads) rename_in(read);
  }
  out.assignments = std::move(rest);
  return out;
}

}  // namespace caravan::schedule
