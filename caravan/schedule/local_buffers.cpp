#include "caravan/schedule/local_buffers.h"

#include <algorithm>
#include <map>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

// All that a kernel does with one buffer.
struct Usage {
  struct At {
    Term offset;
    int64_t width;
  };
  std::vector<At> accesses;
  std::vector<const For*> loops;  // around all accesses, outermost first
  std::vector<Term> conditions;   // around any access
  bool refused = false;
};

std::map<BufferId, Usage> usages_of(const Kernel& kernel) {
  std::map<BufferId, Usage> out;
  auto width_of = [&](Register r) { return kernel.registers[size_t(r)].width; };
  for_each_with_path(statements(kernel), [&](const Statement& s, const Path& path) {
    auto add = [&](const Memory& memory, const Term& offset, int width) -> Usage* {
      if (memory.is_local()) return nullptr;
      const std::vector<const For*> loops = loops_of(path);
      Usage& usage = out[memory];
      if (usage.accesses.empty()) usage.loops = loops;
      const auto [end, _] = std::mismatch(usage.loops.begin(), usage.loops.end(), loops.begin(), loops.end());
      usage.loops.erase(end, usage.loops.end());
      usage.accesses.push_back({offset, width});
      for (const Statement* around : path)
        if (auto* guard = std::get_if<If>(around))
          usage.conditions.insert(usage.conditions.end(), guard->where.begin(), guard->where.end());
      return &usage;
    };
    match(
        s,
        [&](const Define& define) {
          if (auto* load = std::get_if<Load>(&define.value)) add(load->buffer, load->offset, width_of(define.to));
        },
        [&](const Store& store) { add(store.buffer, store.offset, width_of(store.value)); },
        [&](const StoreCombine& store) {
          const int factor = store.factor >= 0 ? width_of(store.factor) : 1;
          add(store.buffer, store.offset, std::max(factor, width_of(store.value)));
        },
        [&](const StoreFirst& store) {  // two buffers share an offset
          for (const Memory& memory : {store.positions, store.best})
            if (Usage* usage = add(memory, store.offset, width_of(store.value))) usage->refused = true;
        },
        [&](const Move& move) {  // other threads may need the rest of what is moved together
          if (Usage* usage = add(move.buffer, move.offset, 1)) usage->refused = true;
        },
        [](const OneOf<Reset, Combine, CombineFirst, Barrier, Prefetch, For, If> auto&) {});
  });
  return out;
}

// The digits that the loops around all accesses choose. The rest of an offset is the place in the array.
std::vector<Digit> digits_of(Usage usage, int64_t& elements, const std::map<Variable, int64_t>& extents) {
  std::vector<Digit> out;
  for (const For* loop : usage.loops) {
    const Digit digit{loop->variable, loop->extent, coefficient(usage.accesses[0].offset, loop->variable)};
    const bool fits = digit.stride > 0 && elements % (digit.stride * digit.extent) == 0 &&
                      std::all_of(usage.accesses.begin(), usage.accesses.end(),
                                  [&](const Usage::At& at) { return has_digit(at.offset, digit, extents, at.width); });
    if (fits) {
      for (Usage::At& at : usage.accesses) at.offset = without_digit(at.offset, digit);
      elements /= digit.extent;
      out.push_back(digit);
      continue;
    }
    // The array has other contents in each iteration, so every iteration must write it before it reads it.
    for (const Term& condition : usage.conditions)
      if (coefficient(condition, loop->variable) != 0) return {};
  }
  return out;
}

// A buffer that becomes local `number` of the kernel.
struct Kept {
  int number;
  std::vector<Digit> digits;
};

void replace(Block& block, const std::map<BufferId, Kept>& kept) {
  auto change = [&](Memory& memory, Term& offset) {
    const auto found = memory.is_local() ? kept.end() : kept.find(memory);
    if (found == kept.end()) return;
    memory = Memory::local(found->second.number);
    for (const Digit& digit : found->second.digits) offset = without_digit(offset, digit);
  };
  for_each_statement(block, [&](Statement& s) {
    match(
        s,
        [&](Define& define) {
          if (auto* load = std::get_if<Load>(&define.value)) change(load->buffer, load->offset);
        },
        [&](OneOf<Store, StoreCombine> auto& store) { change(store.buffer, store.offset); },
        [](OneOf<Reset, Combine, CombineFirst, StoreFirst, Move, Barrier, Prefetch, For, If> auto&) {});
  });
}

}  // namespace

Module local_buffers(const Module& module, const Target& target) {
  Module out = module;
  std::vector<int> users(module.buffers.size(), 0);  // by buffer: how many kernels use it
  std::vector<std::map<BufferId, Usage>> usages;
  for (const Kernel& kernel : module.kernels) {
    usages.push_back(has_statements(kernel) ? usages_of(kernel) : std::map<BufferId, Usage>{});
    if (!has_statements(kernel)) for_each_access(kernel, [&](const Access& a) { users[size_t(a.buffer)] += 2; });
    for (const auto& [id, _] : usages.back()) ++users[size_t(id)];
  }
  for (BufferId id : module.observed) users[size_t(id)] += 2;
  for (const auto& a : module.assignments) users[size_t(a.value)] += 2;

  for (size_t k = 0; k < out.kernels.size(); ++k) {
    Kernel& kernel = out.kernels[k];
    std::map<BufferId, Kept> kept;
    int64_t room = target.tuning.stack_elements;
    std::map<Variable, int64_t> extents;
    for (const auto& [id, usage] : usages[k]) {
      const ir::Buffer& buffer = module.buffers[size_t(id)];
      if (users[size_t(id)] > 1 || usage.refused || !std::holds_alternative<ir::Computed>(buffer.kind) ||
          wide(buffer.dtype) != buffer.dtype)
        continue;
      if (extents.empty()) extents = extents_of(statements(kernel));
      int64_t elements = buffer.shape.elements();
      std::vector<Digit> digits = digits_of(usage, elements, extents);
      if (digits.empty() || elements > room) continue;
      room -= elements;
      const std::string name = kept.empty() ? "scratch" : "scratch" + std::to_string(kept.size() + 1);
      kept[id] = {int(kernel.locals.size()), std::move(digits)};
      kernel.locals.push_back({name, buffer.dtype, elements, Scope::thread, target.tuning.alignment});
    }
    if (!kept.empty()) replace(statements(kernel), kept);
  }
  return out;
}

}  // namespace caravan::schedule
