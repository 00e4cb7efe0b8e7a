#include "caravan/schedule/round_once.h"

#include <map>

#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

void round_once(const Module& module, Kernel& kernel) {
  struct Rounded {
    Register from = -1;
    DType to{};
  };
  std::map<Register, Rounded> casts;
  std::map<Register, int> uses;
  for_each_statement(statements(kernel), [&](const Statement& s) {
    if (inside(s)) return;
    for_each_use(s, [&](Register r) { ++uses[r]; });
    auto* define = std::get_if<Define>(&s);
    auto* cast = define ? std::get_if<Cast>(&define->value) : nullptr;
    if (cast && wide(cast->to) != cast->to && kernel.registers[size_t(cast->arg)] == DType::f32)
      casts[define->to] = {cast->arg, cast->to};
  });
  for_each_of<Store>(statements(kernel), [&](Store& store) {
    const auto cast = casts.find(store.value);
    if (cast == casts.end() || uses[store.value] != 1 || store.buffer.is_local()) return;
    if (module.buffers[size_t(store.buffer)].dtype == cast->second.to) store.value = cast->second.from;
  });
}

}  // namespace

Module round_once(const Module& module) {
  return with_changed_kernels(module, [&](Kernel& kernel) { round_once(module, kernel); });
}

}  // namespace caravan::schedule
