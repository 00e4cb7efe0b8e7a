// What a kernel computes that was lowered from one accumulation, for passes that look for a pattern of kernels: every
// element of a buffer, as a function of elements of others, or as a sum or an extreme of such a function.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "caravan/loop/loop.h"

namespace caravan::schedule {

struct Formula {
  std::map<loop::Variable, int64_t> extents;
  std::map<loop::Register, const loop::Define*> definitions;
  std::vector<loop::Variable> reduced;
  std::vector<loop::Term> guards;
  bool accumulates = false;
  Accumulator accumulator{};
  loop::Register value = -1, factor = -1;  // factor: of a sum of products
  ir::BufferId target = -1;
  loop::Term offset;

  bool is_elementwise() const { return !accumulates && guards.empty(); }
  bool is_reduction(Accumulator by) const {
    return accumulates && accumulator == by && reduced.size() == 1 && guards.empty() && factor < 0;
  }
  bool is_product() const {
    return accumulates && accumulator == Accumulator::add && reduced.size() == 1 && guards.empty() && factor >= 0;
  }
};

// None if the kernel has several stores, if it does not store what it accumulates, or if an index tensor says where.
std::optional<Formula> formula(const loop::Kernel& kernel);

}  // namespace caravan::schedule
