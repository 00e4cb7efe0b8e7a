#include "caravan/codegen/balance.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "caravan/loop/walk.h"
#include "caravan/target/compile_times.h"

namespace caravan::codegen {

using namespace loop;

namespace {

double milliseconds_of(const Block& block) {
  double out = 0;
  for (const Statement& statement : block) {
    double inside_of_it = 0;
    if (const Block* body = inside(statement)) inside_of_it = milliseconds_of(*body);
    if (const For* loop = std::get_if<For>(&statement)) {
      const bool unrolled = loop->kind == LoopKind::unrolled || loop->unroll == Unroll::full;
      out += kCompileTimes.loop + inside_of_it * (unrolled ? double(loop->extent) : 1);
    } else {
      out += kCompileTimes.statement + inside_of_it;
    }
  }
  return out;
}

}  // namespace

double compile_milliseconds(const Kernel& kernel) {
  if (const Attention* a = attention(kernel))
    return a->part == Attention::Part::forward ? kCompileTimes.attention : kCompileTimes.attention_gradient;
  return milliseconds_of(statements(kernel));
}

std::vector<std::vector<size_t>> balanced(const std::vector<double>& milliseconds, double most) {
  const double total = std::accumulate(milliseconds.begin(), milliseconds.end(), 0.0);
  size_t count = 1;
  while (total > most * double(count) && count < milliseconds.size()) count *= 2;

  std::vector<size_t> order(milliseconds.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return milliseconds[a] > milliseconds[b]; });
  struct Group {
    double milliseconds = 0;
    std::vector<size_t> functions;
  };
  std::vector<Group> groups(count);
  for (const size_t f : order) {  // greedy: the longest that is left goes to the group with the least so far
    Group& to = *std::ranges::min_element(groups, {}, &Group::milliseconds);
    to.milliseconds += milliseconds[f], to.functions.push_back(f);
  }
  std::ranges::stable_sort(groups, std::greater(), &Group::milliseconds);
  std::vector<std::vector<size_t>> out;
  for (Group& group : groups) {
    if (group.functions.empty()) continue;
    std::ranges::sort(group.functions);
    out.push_back(std::move(group.functions));
  }
  return out;
}

}  // namespace caravan::codegen
