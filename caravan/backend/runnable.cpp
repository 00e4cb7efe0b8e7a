#include "caravan/backend/runnable.h"

#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/ir/identity.h"
#include "caravan/loop/walk.h"

namespace caravan::backend {

using ir::BufferId;

namespace {

std::map<std::string, BufferId> leaves_of(const ir::Program& program) {
  std::map<std::string, BufferId> out;
  for (size_t b = 0; b < program.buffers.size(); ++b)
    if (!std::holds_alternative<ir::Computed>(program.buffers[b].kind)) out[program.buffers[b].name] = BufferId(b);
  return out;
}

// Which build of this library runs: the file that its machine code was loaded from, and when that was written.
std::string this_build() {
  static const std::string known = [] {
    struct Found {
      uintptr_t address;
      std::string path;
    } found{reinterpret_cast<uintptr_t>(&this_build), ""};
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* to) {
          auto* wanted = static_cast<Found*>(to);
          for (int k = 0; k < object->dlpi_phnum; ++k) {
            const auto& part = object->dlpi_phdr[k];
            const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
            if (part.p_type != PT_LOAD || wanted->address < begin || wanted->address >= begin + part.p_memsz) continue;
            wanted->path = *object->dlpi_name ? object->dlpi_name : "/proc/self/exe";
            return 1;
          }
          return 0;
        },
        &found);
    struct stat about {};
    if (found.path.empty() || stat(found.path.c_str(), &about) != 0) return std::string();
    return found.path + " " + std::to_string(about.st_dev) + " " + std::to_string(about.st_ino) + " " +
           std::to_string(about.st_size) + " " + std::to_string(about.st_mtim.tv_sec) + " " +
           std::to_string(about.st_mtim.tv_nsec);
  }();
  return known;
}

std::string text_of(const Target& t) {
  static_assert(std::has_unique_object_representations_v<Tuning>);
  std::string out = to_string(t);
  for (const int64_t number : {int64_t(t.kind), int64_t(t.vector_registers), t.l1, t.l2, t.l3})
    out += " " + std::to_string(number);
  for (const int64_t number : given(t.gpu)) out += " " + std::to_string(number);
  return out.append(reinterpret_cast<const char*>(&t.tuning), sizeof(Tuning));
}

}  // namespace

std::vector<StateUse> state_uses(const plan::Plan& plan) {
  const loop::Module& module = plan.scheduled;
  std::vector<bool> read(module.buffers.size(), false);
  for (const loop::Kernel& kernel : module.kernels)
    loop::for_each_access(kernel, [&](const loop::Access& a) {
      if (!a.write) read[size_t(a.buffer)] = true;
    });
  const std::map<std::string, BufferId> leaves = leaves_of(plan.program);
  std::set<BufferId> assigned;
  for (const auto& a : plan.program.assignments) assigned.insert(a.state);
  std::vector<StateUse> out;
  for (size_t b = 0; b < module.buffers.size(); ++b) {
    if (!std::holds_alternative<ir::StateLeaf>(module.buffers[b].kind)) continue;
    const BufferId leaf = leaves.at(module.buffers[b].name);
    out.push_back({{BufferId(b), leaf}, read[b], assigned.count(leaf) > 0});
  }
  return out;
}

Runnable runnable(const plan::Plan& plan) {
  const loop::Module& module = plan.scheduled;
  Runnable out;
  out.kernels = int64_t(module.kernels.size()), out.buffers = int64_t(module.buffers.size());
  out.arena_bytes = plan.memory.bytes;
  out.parallel = std::any_of(module.kernels.begin(), module.kernels.end(),
                             [](const loop::Kernel& kernel) { return loop::shares(kernel).has_value(); });
  for (const plan::Placement& place : plan.memory.placements) out.places.push_back({place.buffer, place.offset});
  out.states = state_uses(plan);
  const std::map<std::string, BufferId> leaves = leaves_of(plan.program);
  for (size_t b = 0; b < module.buffers.size(); ++b)
    if (const auto leaf = leaves.find(module.buffers[b].name);
        leaf != leaves.end() && std::holds_alternative<ir::DataLeaf>(module.buffers[b].kind))
      out.data.push_back({BufferId(b), leaf->second});
  for (size_t k = 0; k < plan.program.observed.size(); ++k) {
    const ir::Buffer &wanted = plan.program.buffers[size_t(plan.program.observed[k])],
                     &made = module.buffers[size_t(module.observed[k])];
    CARAVAN_CHECK(same_sizes(wanted.shape, made.shape) && wanted.dtype == made.dtype,
                  "a pass gave the observed `" + wanted.name + "` another form");
    out.observed.push_back(module.observed[k]);
  }
  return out;
}

void write(NoteWriter& note, const Runnable& r) {
  note.number(r.kernels).number(r.buffers).number(r.arena_bytes).number(r.parallel);
  note.number(int64_t(r.places.size()));
  for (const Runnable::Place& p : r.places) note.number(p.buffer).number(p.offset);
  note.number(int64_t(r.states.size()));
  for (const StateUse& use : r.states) note.number(use.buffer).number(use.leaf).number(use.read).number(use.assigned);
  note.number(int64_t(r.data.size()));
  for (const LeafUse& use : r.data) note.number(use.buffer).number(use.leaf);
  note.number(int64_t(r.observed.size()));
  for (const BufferId id : r.observed) note.number(id);
}

Runnable read_runnable(NoteReader& note) {
  Runnable out;
  out.kernels = note.number(), out.buffers = note.number(), out.arena_bytes = note.number(INT64_MAX);
  out.parallel = note.flag();
  auto buffer = [&] { return BufferId(note.number(out.buffers - 1)); };
  auto leaf = [&] {
    const BufferId id = buffer();
    return LeafUse{id, BufferId(note.number())};
  };
  note.list([&] {
    const BufferId id = buffer();
    out.places.push_back({id, note.number(out.arena_bytes)});
  });
  note.list([&] {
    const LeafUse use = leaf();
    const bool read = note.flag(), assigned = note.flag();
    out.states.push_back({use, read, assigned});
  });
  note.list([&] { out.data.push_back(leaf()); });
  note.list([&] { out.observed.push_back(buffer()); });
  return out;
}

std::string origin(const plan::Plan& plan) {
  const std::string build = this_build();
  const bool on_a_mesh = std::any_of(plan.program.accumulations.begin(), plan.program.accumulations.end(),
                                     [](const ir::Accumulation& a) { return a.collective.has_value(); });
  if (build.empty() || on_a_mesh) return "";
  return build + "\n" + text_of(plan.target) + "\n" + std::to_string(plan.options.memory_limit) + " " +
         joined(plan.options.off) + "\n" + ir::identity(plan.program);
}

}  // namespace caravan::backend
